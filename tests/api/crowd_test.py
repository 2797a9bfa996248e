"""Many at once give what each gives alone; who goes away stops costing."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from api.reuse_test import fresh_prompt
from serving import Server
from support import http, metrics

QUESTIONS = ["Name three fruits.", "What is 2 + 3?", "Who wrote Hamlet?",
             "Name the planets of our solar system."]


def ids(answer: dict[str, Any]) -> list[int]:
    return answer["choices"][0]["token_ids"]


@pytest.mark.parametrize("cache_prompt", [False, True])
def test_four_at_once_equal_each_alone(tiny: Server, cache_prompt: bool):
    prompts = [fresh_prompt(50 + n, length)
               for n, length in enumerate((3, 70, 300, 650))]

    def ask(prompt: list[int], **more: Any) -> list[int]:
        return ids(http.complete(tiny, prompt, max_tokens=40, ignore_eos=True,
                                 **more))

    alone = [ask(p, cache_prompt=False) for p in prompts]
    for _ in range(3):
        with ThreadPoolExecutor(4) as pool:
            crowd = list(pool.map(
                lambda p: ask(p, cache_prompt=cache_prompt), prompts))
        assert crowd == alone


def test_four_chats_at_once_equal_each_alone(smol: Server):
    def ask(question: str) -> list[int]:
        return ids(http.chat(smol, question, max_tokens=24))

    alone = [ids(http.chat(smol, q, max_tokens=24, cache_prompt=False))
             for q in QUESTIONS]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, QUESTIONS)) == alone


def test_more_than_parallel_wait_their_turn(tiny: Server):
    prompts = [fresh_prompt(70 + n, 40) for n in range(12)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(
            lambda p: http.complete(tiny, p, max_tokens=20, ignore_eos=True),
            prompts))
    assert all(a["usage"]["completion_tokens"] == 20 for a in answers)


def leave(server: Server, path: str, body: dict[str, Any], *,
          after: bytes | None) -> None:
    """Sends a request and resets the connection: after the first bytes of a
    stream that contain `after`, or as soon as the request runs."""
    data = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", server.port), 30) as s:
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: "
                  f"application/json\r\nContent-Length: {len(data)}\r\n\r\n"
                  .encode() + data)
        if after is None:
            assert metrics.wait_for(lambda: running(server) == 1, 10)
        else:
            said = b""
            while after not in said:
                assert (more := s.recv(4096)), f"closed after {said!r}"
                said += more
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                     b"\x01\x00\x00\x00\x00\x00\x00\x00")


def running(server: Server) -> float:
    return metrics.total(server, "reprise_requests_running")


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_costing(smol: Server, stream: bool):
    generated = "reprise_generated_tokens_total"
    before = metrics.total(smol, generated)
    leave(smol, http.CHAT, {
        "messages": [{"role": "user", "content": "Count to one thousand."}],
        "max_tokens": 1500, "ignore_eos": True, "stream": stream,
        "temperature": 0}, after=b'"content"' if stream else None)
    # A step takes some 20 ms; one second is for a busy machine.
    assert metrics.wait_for(lambda: running(smol) == 0, 1.0)
    assert metrics.total(smol, generated) - before < 500
    http.serves(smol)


def test_clients_that_leave_during_prefill(smol: Server):
    evaluated = "reprise_evaluated_tokens_total"
    before = metrics.total(smol, evaluated)
    leave(smol, http.COMPLETIONS, {
        "prompt": fresh_prompt(90, 1900), "max_tokens": 100,
        "ignore_eos": True}, after=None)
    assert metrics.wait_for(lambda: running(smol) == 0, 30)
    assert metrics.total(smol, evaluated) - before < 1900, "not to its end"
    http.serves(smol)


def test_clients_that_leave_in_the_queue(smol: Server):
    """Four run, four wait; all eight leave, the waiting ones first."""
    waiting = "reprise_requests_waiting"
    body = {"prompt": [5, 6, 7], "max_tokens": 1500, "ignore_eos": True,
            "stream": True}
    data = json.dumps(body).encode()
    head = (f"POST {http.COMPLETIONS} HTTP/1.1\r\nHost: x\r\n"
            f"Content-Length: {len(data)}\r\n\r\n").encode()
    clients = []
    try:
        for _ in range(8):
            s = socket.create_connection(("127.0.0.1", smol.port), 30)
            clients.append(s)
            s.sendall(head + data)
        assert metrics.wait_for(
            lambda: (running(smol), metrics.total(smol, waiting)) == (4, 4), 20)
    finally:
        for s in reversed(clients):
            s.close()
    assert metrics.wait_for(
        lambda: (running(smol), metrics.total(smol, waiting)) == (0, 0), 5)
    http.serves(smol)
