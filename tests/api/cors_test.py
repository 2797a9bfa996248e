"""What web pages may do: nothing, unless --cors-origin says so."""

from collections.abc import Iterator

import httpx
import pytest

from conftest import TINY, start
from serving import Server
from support import http

PAGE, OTHER = "https://chat.example", "https://other.example"
BODY = {"prompt": [1, 2, 3], "max_tokens": 1, "cache_prompt": False}
PREFLIGHT = {"Access-Control-Request-Method": "POST",
             "Access-Control-Request-Headers": "authorization,content-type"}


@pytest.fixture(scope="module")
def listed() -> Iterator[Server]:
    with start(TINY, "--cors-origin", PAGE, "--cors-origin",
               "http://localhost:3000", log="cors-listed") as server:
        server.wait_ready()
        yield server


def cors(answer: httpx.Response) -> dict[str, str]:
    return {k: v for k, v in answer.headers.items()
            if k.startswith("access-control-")}


def test_by_default_no_page_reads_or_causes_anything(tiny: Server):
    for path in ("/health", "/v1/models", "/nothing"):
        assert not cors(httpx.get(tiny.url + path, headers={"Origin": PAGE}))
    assert not cors(httpx.options(tiny.url + http.CHAT,
                                  headers={"Origin": PAGE, **PREFLIGHT}))
    # A form's POST is sent without a preflight: the body would be served.
    answer = httpx.post(tiny.url + http.COMPLETIONS, json=BODY,
                        headers={"Origin": PAGE, "Content-Type": "text/plain"})
    assert http.refused(answer, 403)["code"] == "origin_not_allowed"
    assert not cors(answer)
    http.serves(tiny)


def test_a_rebound_name_is_refused(tiny: Server):
    """evil.example now resolves to 127.0.0.1: same origin for the browser."""
    answer = httpx.get(tiny.url + "/v1/models",
                       headers={"Host": f"evil.example:{tiny.port}"})
    assert http.refused(answer, 403)["code"] == "host_not_allowed"
    for host in ("localhost", f"127.0.0.1:{tiny.port}", "[::1]", "my-box"):
        answer = httpx.get(tiny.url + "/v1/models", headers={"Host": host})
        assert answer.status_code == 200, host


def test_a_listed_page_reads_all_replies(listed: Server):
    headers = {"Origin": PAGE}
    for answer, status in (
            (httpx.get(listed.url + "/health", headers=headers), 200),
            (httpx.get(listed.url + "/nothing", headers=headers), 404),
            (httpx.post(listed.url + http.COMPLETIONS, json=BODY,
                        headers=headers), 200),
            (httpx.post(listed.url + http.COMPLETIONS, content=b"{",
                        headers=headers), 400),
            (httpx.post(listed.url + http.COMPLETIONS, headers=headers,
                        json={**BODY, "stream": True}), 200)):
        assert answer.status_code == status
        assert cors(answer)["access-control-allow-origin"] == PAGE
        assert "origin" in answer.headers["Vary"].lower()


def test_a_preflight_of_a_listed_page(listed: Server):
    answer = httpx.options(listed.url + http.CHAT,
                           headers={"Origin": PAGE, **PREFLIGHT})
    assert answer.status_code == 204
    allowed = cors(answer)
    assert allowed["access-control-allow-origin"] == PAGE
    assert "POST" in allowed["access-control-allow-methods"]
    assert (allowed["access-control-allow-headers"]
            == "authorization,content-type")
    assert int(allowed["access-control-max-age"]) > 0


def test_a_page_that_is_not_listed(listed: Server):
    for origin in (OTHER, "http://chat.example", PAGE + ".evil", "null"):
        headers = {"Origin": origin}
        answer = httpx.get(listed.url + "/health", headers=headers)
        assert answer.status_code == 200 and not cors(answer), origin
        assert not cors(httpx.options(listed.url + http.CHAT,
                                      headers={**headers, **PREFLIGHT}))
        assert httpx.post(listed.url + http.COMPLETIONS, json=BODY,
                          headers=headers).status_code == 403


def test_all_pages():
    with start(TINY, "--cors-origin", "*", log="cors-all") as server:
        server.wait_ready()
        answer = httpx.post(server.url + http.COMPLETIONS, json=BODY,
                            headers={"Origin": OTHER})
        assert answer.status_code == 200
        assert cors(answer)["access-control-allow-origin"] == "*"
