"""/health, /metrics and the process itself."""

import re
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from conftest import TINY, start
from serving import BINARY, SMOLLM2, Server
from support import http, metrics
from support.endless_model import endless_model


def test_loading_until_ready():
    """503 `loading`, then 200; generation is refused with 503 meanwhile."""
    with start(SMOLLM2, log="health-loading") as server:
        seen: list[tuple[int, str]] = []
        end = time.monotonic() + 60
        while (not seen or seen[-1][0] != 200) and time.monotonic() < end:
            try:
                answer = httpx.get(server.url + "/health", timeout=5)
            except httpx.TransportError:
                continue
            seen.append((answer.status_code, answer.json()["status"]))
            if answer.status_code == 503 and len(seen) == 1:
                # It may have become ready in between, and then it answers.
                early = http.post(server, http.COMPLETIONS,
                                  {"prompt": [1], "max_tokens": 1})
                assert early.status_code in (200, 503)
        assert (503, "loading") in seen
        assert set(seen) == {(503, "loading"), (200, "ok")}
        http.serves(server)


def test_metrics_are_prometheus_text(tiny: Server):
    text = httpx.get(tiny.url + "/metrics").text
    for line in text.splitlines():
        assert re.fullmatch(
            rf"# (HELP|TYPE) \S+ .*|{metrics.SERIES} \S+", line), line
    names = {k.split("{")[0] for k in metrics.read(tiny)}
    assert {"reprise_requests_running", "reprise_prompt_tokens_total",
            "reprise_cached_tokens_total",
            "reprise_generated_tokens_total"} <= names


def test_stops_on_a_signal_with_a_request_running():
    with start(SMOLLM2, log="health-stop") as server:
        server.wait_ready()
        events = server.stream(http.CHAT, {
            "messages": [{"role": "user", "content": "Count to 1000."}],
            "stream": True, "max_tokens": 64, "ignore_eos": True})
        next(events)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("file", ["tokenizer.json", "model.safetensors"])
def test_stops_at_once_while_loading(tmp_path: Path, number: signal.Signals,
                                     file: str):
    """A load that would never end, on either side of it."""
    with start(endless_model(tmp_path, file), log="health-endless") as server:
        assert metrics.wait_for(lambda: server.health() == 503, 20)
        assert httpx.get(server.url + "/health").json() == {"status": "loading"}
        asked = time.monotonic()
        server.process.send_signal(number)
        assert server.process.wait(timeout=10) == 0
        assert time.monotonic() - asked < 2
        assert "still loading" in server.log.read_text()


def test_port_in_use_is_one_clear_line(tiny: Server):
    done = subprocess.run(
        [BINARY, "serve", "-m", TINY, "--port", str(tiny.port)],
        capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    (line,) = [x for x in done.stderr.splitlines() if "error" in x.lower()]
    assert str(tiny.port) in line
    http.serves(tiny)


@pytest.mark.parametrize("flags,hint", [
    (["--state-memory", "lots"], "lots"), (["--state-memory", "-1"], "-1"),
    (["-np", "0"], "0"), (["-c", "-5"], "-5"), (["--dtype", "int3"], "int3"),
    (["--device", "toaster"], "toaster"), (["--port", "99999"], "99999"),
    (["--no-such-flag"], "no-such-flag")], ids=str)
def test_bad_flags_name_the_value(flags: list[str], hint: str):
    done = subprocess.run([BINARY, "serve", "-m", TINY, *flags],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode != 0
    assert hint in done.stderr + done.stdout


def test_version_and_help():
    version = subprocess.run([BINARY, "--version"], capture_output=True,
                             text=True, timeout=30, check=True).stdout
    assert re.search(r"reprise \d+\.\d+\.\d+", version)
    assert re.search("cpu|gpu", version)
    for command in ([], ["serve"], ["chat"], ["run"]):
        text = subprocess.run([BINARY, *command, "--help"], text=True,
                              capture_output=True, timeout=30, check=True).stdout
        assert "Example" in text, command


@pytest.mark.real_model
def test_run_prints_only_the_text():
    done = subprocess.run(
        [BINARY, "run", "-m", SMOLLM2, "--dtype", "float32", "-p",
         "What is the capital of France? Answer in one word."],
        capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "The capital of France is Paris.\n"


@pytest.mark.real_model
def test_chat_in_a_pipe():
    done = subprocess.run(
        [BINARY, "chat", "-m", SMOLLM2, "--dtype", "float32"], text=True,
        input="What is the capital of France? Answer in one word.\n/exit\n",
        capture_output=True, timeout=120, check=True)
    assert "The capital of France is Paris." in done.stdout
