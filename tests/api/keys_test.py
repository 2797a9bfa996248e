"""API keys: the official client, the header of Anthropic's, files."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from conftest import TINY, start
from serving import BINARY, Server
from support import http
from support.bare_server import BareServer

KEY, SECOND, FILED = "sk-first-4711", "sk-second-4712", "sk-filed-4713"
BODY = {"prompt": [1, 2, 3], "max_tokens": 1, "cache_prompt": False}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(f"# ours\n\n{FILED}\n")
    file.chmod(0o600)
    with start(TINY, "--api-key", KEY, "--api-key", SECOND, "--api-key-file",
               str(file), "--log-level", "trace", log="keys") as server:
        server.wait_ready()
        yield server


def ask(server: Server, **headers: str) -> httpx.Response:
    return httpx.post(server.url + http.COMPLETIONS, json=BODY, timeout=60,
                      headers=headers)


@pytest.mark.parametrize("key", [KEY, SECOND, FILED])
def test_each_key_in_each_header(guarded: Server, key: str):
    client = openai.OpenAI(base_url=guarded.url + "/v1", api_key=key,
                           max_retries=0)
    assert client.completions.create(model="hf", **{
        "prompt": [1, 2, 3], "max_tokens": 1}).usage.completion_tokens == 1
    assert ask(guarded, **{"x-api-key": key}).status_code == 200
    assert ask(guarded, authorization=f"bEARER {key}").status_code == 200


def test_others_are_401(guarded: Server):
    client = openai.OpenAI(base_url=guarded.url + "/v1", api_key="sk-no",
                           max_retries=0)
    with pytest.raises(openai.AuthenticationError) as refused:
        client.models.list()
    assert refused.value.code == "invalid_api_key"
    for headers in ({}, {"x-api-key": "sk-no"}, {"authorization": KEY},
                    {"authorization": f"Basic {KEY}"},
                    {"authorization": f"Bearer {KEY}x"},
                    {"authorization": f"Bearer {KEY[:-1]}"}):
        answer = ask(guarded, **headers)
        error = http.refused(answer, 401)
        assert error["code"] == "invalid_api_key"
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert "sk-" not in answer.text


def test_what_is_open(guarded: Server):
    assert httpx.get(guarded.url + "/health").status_code == 200
    for path in ("/", "/metrics", "/v1/models", "/v1/nothing"):
        assert httpx.get(guarded.url + path).status_code == 401, path


def test_the_body_is_not_waited_for(guarded: Server):
    said = http.raw_exchange(guarded, [
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
        b"Content-Length: 1000000\r\n\r\n"], timeout_s=10)
    assert http.status_of(said) == 401


def test_no_key_is_ever_logged(guarded: Server):
    ask(guarded, authorization=f"Bearer {KEY}")
    ask(guarded, authorization="Bearer sk-wrong-4714")
    log = guarded.log.read_text()
    assert "status=401" in log
    for key in (KEY, SECOND, FILED, "4714"):
        assert key not in log


def refused_start(*flags: str) -> str:
    done = subprocess.run([BINARY, "serve", "-m", TINY, "--port", "0", *flags],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize("text", ["", "\n", "# only this\n", " \t\n"])
def test_a_file_without_a_key_does_not_start(tmp_path: Path, text: str):
    file = tmp_path / "keys"
    file.write_text(text)
    assert str(file) in refused_start("--api-key-file", str(file))


def test_values_that_are_no_keys(tmp_path: Path):
    assert "--api-key" in refused_start("--api-key", "")
    assert "--api-key" in refused_start("--api-key", "  ")
    assert "tell-nobody" not in refused_start("--api-key", "tell-nobody me")
    file = tmp_path / "keys"
    file.write_text("good\ntell-nobody me\n")
    said = refused_start("--api-key-file", str(file))
    assert f"{file}:2" in said and "tell-nobody" not in said
    assert "no-such-file" in refused_start("--api-key-file", "no-such-file")


def test_a_file_that_others_read_is_warned_of(tmp_path: Path):
    file = tmp_path / "keys"
    file.write_text(KEY + "\n")
    for mode, warned in ((0o644, True), (0o600, False)):
        file.chmod(mode)
        with start(TINY, "--api-key-file", str(file),
                   log=f"keys-{mode:o}") as server:
            server.wait_ready()
            assert ("chmod 600" in server.log.read_text()) == warned


def test_open_to_the_network_without_a_key_is_warned_of():
    for host, key, warned in (("0.0.0.0", "", True), ("0.0.0.0", KEY, False),
                              ("127.0.0.1", "", False)):
        with BareServer({"REPRISE_API_KEY": key}, "-m", str(TINY), "--host",
                        host, log="keys-open") as server:
            server.wait_ready()
            assert ("can use this server" in server.log.read_text()) == warned
