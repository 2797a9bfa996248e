"""X-Request-Id on every reply and in the log; the access log itself."""

import re
from collections.abc import Callable

import httpx
import openai

from conftest import TINY, start
from serving import Server
from support import http, metrics

GENERATED = r"req-[0-9a-f]{32}"


def line_of(server: Server, request_id: str) -> dict[str, str]:
    """The fields of the one line about this request."""
    marked = f"request id={request_id} "
    assert metrics.wait_for(lambda: marked in server.log.read_text(), 10)
    (line,) = [x for x in server.log.read_text().splitlines() if marked in x]
    return dict(part.split("=", 1) for part in line.split() if "=" in part)


def test_the_official_client_shows_it(
        tiny: Server, client: Callable[[Server], openai.OpenAI]):
    c = client(tiny)
    answer = c.chat.completions.create(
        model="hf", messages=[{"role": "user", "content": "a"}], max_tokens=1)
    assert re.fullmatch(GENERATED, answer._request_id)
    assert line_of(tiny, answer._request_id)["status"] == "200"
    answer = c.chat.completions.create(
        model="hf", messages=[{"role": "user", "content": "a"}], max_tokens=1,
        extra_headers={"X-Request-Id": "client-chosen-1"})
    assert answer._request_id == "client-chosen-1"
    try:
        c.models.retrieve("another")
    except openai.NotFoundError as e:
        assert re.fullmatch(GENERATED, e.request_id)
        assert line_of(tiny, e.request_id)["status"] == "404"


def test_streams_and_errors_carry_it(tiny: Server):
    def post(body: bytes, request_id: str) -> httpx.Response:
        return httpx.post(tiny.url + http.COMPLETIONS, content=body,
                          headers={"X-Request-Id": request_id})
    assert post(b"{", "bad-body-1").headers["x-request-id"] == "bad-body-1"
    answer = post(b'{"prompt": [1], "max_tokens": 1, "stream": true}', "sse-1")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-request-id"] == "sse-1"
    said = http.raw_exchange(tiny, [b"nonsense\r\n\r\n"])
    assert re.search(rb"X-Request-Id: " + GENERATED.encode(), said)
    said = http.raw_exchange(tiny, [
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: too-big\r\n"
        b"Content-Length: 99999999999\r\n\r\n"])
    assert http.status_of(said) == 413 and b"X-Request-Id: too-big" in said


def test_an_id_that_could_harm_a_log_is_replaced(tiny: Server):
    for bad in (b"x" * 129, b"a b", b"caf\xc3\xa9", b"a\tb"):
        said = http.raw_exchange(tiny, [
            b"GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: " + bad
            + b"\r\nConnection: close\r\n\r\n"])
        assert re.search(rb"X-Request-Id: " + GENERATED.encode() + b"\r", said)


def test_the_line_has_numbers_and_no_texts(tiny: Server):
    body = {"prompt": "tell-nobody " * 20, "max_tokens": 3, "ignore_eos": True,
            "cache_prompt": True}
    for number in (1, 2):
        answer = httpx.post(
            tiny.url + http.COMPLETIONS + "?q=tell-nobody", json=body,
            headers={"X-Request-Id": f"line-{number}", "Cookie": "tell-nobody"})
        usage = answer.json()["usage"]
        line = line_of(tiny, f"line-{number}")
        assert line["method"] == "POST" and line["path"] == http.COMPLETIONS
        assert line["client"] == "127.0.0.1" and line["status"] == "200"
        assert int(line["prompt_tokens"]) == usage["prompt_tokens"]
        assert (int(line["cached_tokens"])
                == usage["prompt_tokens_details"]["cached_tokens"])
        assert int(line["completion_tokens"]) == 3
        assert int(line["bytes"]) > len(answer.content)
        assert 0 < float(line["first_byte_ms"]) <= float(line["total_ms"])
    assert int(line["cached_tokens"]) > 0, "the second one reuses the first"
    assert "tell-nobody" not in tiny.log.read_text()


def test_a_path_cannot_forge_a_line(tiny: Server):
    httpx.get(tiny.url + "/%0Arequest%20id=forged%20status=200",
              headers={"X-Request-Id": "honest-1"})
    assert line_of(tiny, "honest-1")["status"] == "404"
    assert not [x for x in tiny.log.read_text().splitlines()
                if x.startswith("request id=forged")]


def test_it_can_be_turned_off():
    with start(TINY, "--access-log", "off", log="access-log-off") as server:
        server.wait_ready()
        http.serves(server)
        assert "request id=" not in server.log.read_text()
