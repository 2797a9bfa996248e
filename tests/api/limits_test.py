"""The limits as flags: each turns up in the answer to who goes over it."""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from conftest import TINY, start
from serving import BINARY, Server
from support import http, metrics


@pytest.fixture(scope="module")
def small() -> Iterator[Server]:
    with start(TINY, "--max-body", "2KiB", "--max-bodies", "3KiB",
               "--max-header", "1KiB", "--max-connections", "4",
               "--header-timeout", "0.3", "--body-timeout", "3",
               "--idle-timeout", "20", log="limits") as server:
        server.wait_ready()
        yield server


def head(*lines: str) -> bytes:
    return "\r\n".join(["POST /v1/completions HTTP/1.1", "Host: x",
                        *lines, "", ""]).encode()


def answer_to(server: Server, *pieces: bytes) -> tuple[int, str]:
    said = http.raw_exchange(server, pieces, timeout_s=20)
    return http.status_of(said), said.partition(b"\r\n\r\n")[2].decode()


def test_header(small: Server):
    status, body = answer_to(small, head("X: " + "y" * 1024))
    assert status == 431 and "1024 bytes" in body


def test_body(small: Server):
    status, body = answer_to(small, head("Content-Length: 2049"))
    assert status == 413 and "2048 bytes" in body
    assert answer_to(small, head("Content-Length: 2048"),
                     b" " * 2048)[0] == 400, "read, and not JSON"


def test_slow_header_and_body(small: Server):
    status, body = answer_to(small, b"POST /v1/compl")
    assert status == 408 and "300 ms" in body
    status, body = answer_to(small, head("Content-Length: 5"), b"{")
    assert status == 408 and "3000 ms" in body


def test_bodies_together(small: Server):
    with socket.create_connection(("127.0.0.1", small.port), 10) as slow:
        slow.sendall(head("Content-Length: 2000") + b" " * 1800)
        assert metrics.wait_for(lambda: metrics.total(
            small, "reprise_body_bytes") == 1800, 2)
        said = http.raw_exchange(small, [head("Content-Length: 1500")])
        assert http.status_of(said) == 503
        assert b"Retry-After: " in said and b"3072 bytes" in said
        http.serves(small)
    assert metrics.wait_for(
        lambda: metrics.total(small, "reprise_body_bytes") == 0, 5)


@pytest.mark.real_model  # sanitizers keep freed memory for a while
def test_memory_does_not_grow_with_bodies(serve: Callable[..., Server]):
    """40 clients, 8 MiB each, none complete: 320 MiB if all were kept."""
    server = serve(TINY, "--max-body", "8MiB", "--max-bodies", "32MiB")
    before = metrics.total(server, "reprise_resident_bytes")
    piece = b" " * (8 << 20)
    with ExitStack() as stack:
        for _ in range(40):
            s = stack.enter_context(
                socket.create_connection(("127.0.0.1", server.port), 10))
            try:
                s.sendall(head(f"Content-Length: {len(piece)}") + piece[:-1])
            except OSError:
                pass  # refused while it was sent
        held = metrics.total(server, "reprise_body_bytes")
        assert (24 << 20) <= held <= (32 << 20)
        assert metrics.total(server, "reprise_resident_bytes") - before < 96 << 20
    assert metrics.wait_for(
        lambda: metrics.total(server, "reprise_body_bytes") == 0, 5)
    http.serves(server)


def test_connections(small: Server):
    """Busy ones cannot make room, and say so; idle ones do."""
    with ExitStack() as stack:
        busy = [stack.enter_context(
            socket.create_connection(("127.0.0.1", small.port), 10))
            for _ in range(4)]
        for s in busy:
            s.sendall(head("Content-Length: 5") + b"{")
        time.sleep(0.2)
        status, body = answer_to(small, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status == 503 and "All 4 connections" in body
    with ExitStack() as stack:
        for _ in range(8):
            s = stack.enter_context(
                socket.create_connection(("127.0.0.1", small.port), 10))
            s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in s.recv(4096)
    http.serves(small)


def test_codings(tiny: Server):
    status, body = answer_to(tiny, head("Transfer-Encoding: gzip, chunked"),
                             b"2\r\n{}\r\n0\r\n\r\n")
    assert status == 501 and "gzip" in body
    answer = httpx.post(tiny.url + http.COMPLETIONS, content=b"{}",
                        headers={"Content-Encoding": "gzip"})
    assert "gzip" in http.refused(answer, 415)["message"]
    assert answer.headers["Accept-Encoding"] == "identity"
    http.serves(tiny)


@pytest.mark.parametrize("flags,hints", [
    (["--max-body", "lots"], ["--max-body", "lots"]),
    (["--max-body", "0"], ["--max-body", "0"]),
    (["--max-bodies", "1MiB"], ["--max-bodies", "1048576", "33554432"]),
    (["--max-connections", "0"], ["--max-connections", "0"]),
    (["--idle-timeout", "-1"], ["--idle-timeout", "-1"]),
    (["--step-timeout", "soon"], ["--step-timeout", "soon"]),
    (["--cors-origin", "chat.example/x"], ["chat.example/x"]),
    (["--access-log", "maybe"], ["--access-log", "maybe"])], ids=str)
def test_bad_values_name_the_flag(flags: list[str], hints: list[str]):
    done = subprocess.run([BINARY, "serve", "-m", TINY, "--port", "0", *flags],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode != 0
    assert all(hint in done.stderr for hint in hints), done.stderr
