"""Plain HTTP against a server: what the official client will not send."""

import json
import select
import socket
from collections.abc import Iterable
from typing import Any

import httpx

from serving import Server

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


def post(server: Server, path: str, body: Any) -> httpx.Response:
    """POSTs JSON; bytes are sent as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    # Certificates are of no use here, and take longer to read than most answers.
    return httpx.post(server.url + path, content=data, timeout=120, verify=False,
                      headers={"Content-Type": "application/json"})


def chat(server: Server, content: Any, **more: Any) -> dict[str, Any]:
    """One user message, greedy, no stream; the parsed answer."""
    body = {"messages": [{"role": "user", "content": content}],
            "temperature": 0, "return_token_ids": True, **more}
    response = post(server, CHAT, body)
    assert response.status_code == 200, response.text
    return response.json()


def complete(server: Server, prompt: Any, **more: Any) -> dict[str, Any]:
    """A greedy completion, no stream; the parsed answer."""
    body = {"prompt": prompt, "temperature": 0, "return_token_ids": True, **more}
    response = post(server, COMPLETIONS, body)
    assert response.status_code == 200, response.text
    return response.json()


def stream(server: Server, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """All events of a stream; it must end with [DONE]."""
    return list(server.stream(path, {**body, "stream": True}))


def stream_text(events: list[dict[str, Any]]) -> str:
    return "".join((c.get("text") if "text" in c else
                    c["delta"].get("content")) or ""
                   for e in events for c in e["choices"])


def refused(response: httpx.Response, status: int = 400) -> dict[str, Any]:
    """Checks that it is an error in OpenAI's shape; gives its inside."""
    assert response.status_code == status, (response.status_code, response.text)
    error = response.json()["error"]
    assert {"message", "type", "param", "code"} <= set(error), error
    assert error["message"].strip() and "\n" not in error["message"], error
    return error


def serves(server: Server) -> None:
    """The next ordinary request is served, and health agrees."""
    answer = complete(server, [1, 2, 3], max_tokens=1, cache_prompt=False)
    assert answer["usage"]["completion_tokens"] == 1
    assert server.health() == 200


def raw_exchange(server: Server, pieces: Iterable[bytes],
                 timeout_s: float = 60) -> bytes:
    """Sends piece after piece until the server answers or hangs up; gives
    everything that it said until it closed (or the first 64 KiB)."""
    said = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout_s) as s:
        try:
            for piece in pieces:
                s.sendall(piece)
                if select.select([s], [], [], 0)[0]:
                    break
            while len(said) < 65536 and (more := s.recv(65536)):
                said += more
                if said_all(said):
                    break
        except (BrokenPipeError, ConnectionResetError):
            pass
    return said


def said_all(data: bytes) -> bool:
    """The head and as much body as its Content-Length promises are there."""
    head, found, body = data.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return bool(found) and len(body) >= int(value)
    return False


def status_of(data: bytes) -> int:
    assert data.startswith(b"HTTP/1."), data[:200]
    return int(data.split(b" ", 2)[1])
