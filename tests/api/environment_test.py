"""Every flag is a variable, too; the flag wins."""

import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from conftest import TINY, TINY_CONTEXT
from serving import BINARY, SMOLLM2, Server, free_port
from support import http
from support.bare_server import BareServer

def help_of(*command: str) -> str:
    return subprocess.run([BINARY, *command, "--help"], capture_output=True,
                          text=True, timeout=30, check=True).stdout


def options(command: str) -> dict[str, str]:
    """Each option of the command's help -> its line and those that go on."""
    found = re.findall(r"^  (-\S.*?)(?=^  -|\Z|^\S)", help_of(command),
                       re.M | re.S)
    result = {}
    for entry in found:
        name = re.search(r"--([a-z][a-z-]*)", entry)
        assert name, entry
        result[name[1]] = entry
    return result


def variable(option: str) -> str:
    return "REPRISE_" + option.upper().replace("-", "_")


def test_help_names_the_variable_of_each():
    listed = help_of().split("Subcommands:")[1].split("\n\n")[0]
    commands = re.findall(r"^  ([a-z]+) ", listed, re.M)
    assert {"serve", "chat", "run"} <= set(commands)
    for command in commands:
        found = options(command)
        assert command == "template" or "model" in found
        for option, entry in found.items():
            if option != "help":
                named = f"(Env:{variable(option)})"
                assert named in " ".join(entry.split()), (command, entry)
    assert {"host", "port", "api-key", "api-key-file", "cors-origin",
            "access-log", "max-body", "max-bodies", "max-header",
            "max-connections", "idle-timeout", "header-timeout",
            "body-timeout", "write-timeout", "step-timeout", "context-length",
            "parallel", "state-memory", "log-level"} <= set(options("serve"))


@pytest.fixture(scope="module")
def variables() -> Iterator[Server]:
    with BareServer({
            "REPRISE_MODEL": str(TINY), "REPRISE_HOST": "127.0.0.1",
            "REPRISE_API_KEY": "sk-from-env", "REPRISE_CONTEXT_LENGTH": "300",
            "REPRISE_PARALLEL": "2", "REPRISE_LOG_LEVEL": "debug",
            "REPRISE_STATE_MEMORY": "8MiB", "REPRISE_DTYPE": "float32",
            "REPRISE_MAX_BODY": "4KiB", "REPRISE_MAX_HEADER": "2KiB",
            "REPRISE_MAX_BODIES": "6KiB", "REPRISE_MAX_CONNECTIONS": "7",
            "REPRISE_HEADER_TIMEOUT": "0.2", "REPRISE_BODY_TIMEOUT": "0.25",
            "REPRISE_IDLE_TIMEOUT": "30", "REPRISE_WRITE_TIMEOUT": "30",
            "REPRISE_STEP_TIMEOUT": "30", "REPRISE_ACCESS_LOG": "on",
            "REPRISE_CORS_ORIGIN": "https://a.example,https://b.example",
            "REPRISE_TEMPERATURE": "no number, and another command's",
    }, log="environment") as server:
        server.wait_ready()
        yield server


KEY = {"x-api-key": "sk-from-env"}


def test_key(variables: Server):
    assert httpx.get(variables.url + "/v1/models").status_code == 401
    assert httpx.get(variables.url + "/v1/models",
                     headers=KEY).status_code == 200


def test_context_and_state_memory(variables: Server):
    card = httpx.get(variables.url + "/v1/models", headers=KEY).json()["data"][0]
    assert card["max_model_len"] == 300 < TINY_CONTEXT
    page = httpx.get(variables.url + "/metrics", headers=KEY).text
    blocks = sum(map(float, re.findall(
        r"^reprise_blocks\{.*\} (\S+)$", page, re.M)))
    size = float(re.search(r"^reprise_block_bytes (\S+)$", page, re.M)[1])
    assert 4 << 20 < blocks * size <= 8 << 20


def test_cors_origins(variables: Server):
    for origin in ("https://a.example", "https://b.example"):
        answer = httpx.get(variables.url + "/health", headers={"Origin": origin})
        assert answer.headers["Access-Control-Allow-Origin"] == origin


def test_limits(variables: Server):
    answer = httpx.post(variables.url + http.COMPLETIONS, content=b" " * 5000,
                        headers=KEY)
    assert "4096 bytes" in http.refused(answer, 413)["message"]
    answer = httpx.get(variables.url + "/health", headers={"x": "y" * 3000})
    assert "2048 bytes" in http.refused(answer, 431)["message"]
    said = http.raw_exchange(variables, [b"GET / HT"], timeout_s=10)
    assert b"200 ms" in said


def test_log_level_and_access_log(variables: Server):
    log = variables.log.read_text()
    assert "request id=" in log
    with BareServer({"REPRISE_MODEL": str(TINY), "REPRISE_LOG_LEVEL": "error"},
                 log="environment-quiet") as quiet:
        quiet.wait_ready()
        assert not quiet.log.read_text()


def test_parallel(variables: Server):
    """Six requests at once; the most that /metrics saw running."""
    most = 0.0
    body = {"prompt": [1, 2, 3], "max_tokens": 250, "ignore_eos": True}

    def ask(_: int) -> int:
        return httpx.post(variables.url + http.COMPLETIONS, json=body,
                          headers=KEY, timeout=60).status_code

    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(ask, i) for i in range(6)]
        while not all(a.done() for a in asked):
            page = httpx.get(variables.url + "/metrics", headers=KEY).text
            found = re.search(r"^reprise_requests_running (\S+)$", page, re.M)
            most = max(most, float(found[1]))
    assert [a.result() for a in asked] == [200] * 6
    assert most == 2


def test_host_and_port(variables: Server):
    assert f"http://127.0.0.1:{variables.port}" in variables.log.read_text()


def test_the_flag_wins():
    port = free_port()
    with BareServer({"REPRISE_MODEL": "no/such/model", "REPRISE_PORT": "99999",
                  "REPRISE_API_KEY": "sk-env", "REPRISE_CONTEXT_LENGTH": "x"},
                 "-m", str(TINY), "--port", str(port), "--api-key", "sk-flag",
                 "-c", "200", log="environment-flag") as server:
        server.port = port
        server.wait_ready()
        get = lambda key: httpx.get(server.url + "/v1/models",
                                    headers={"x-api-key": key})
        assert get("sk-env").status_code == 401
        assert get("sk-flag").json()["data"][0]["max_model_len"] == 200


@pytest.mark.parametrize("name,value", [
    ("REPRISE_PORT", "99999"), ("REPRISE_PORT", "tcp://10.0.0.7:80"),
    ("REPRISE_PARALLEL", "none"), ("REPRISE_STATE_MEMORY", "lots"),
    ("REPRISE_LOG_LEVEL", "loud"), ("REPRISE_MAX_BODY", "many"),
    ("REPRISE_IDLE_TIMEOUT", "soon"), ("REPRISE_ACCESS_LOG", "maybe"),
    ("REPRISE_DEVICE", "toaster")], ids=str)
def test_a_wrong_value_names_the_variable(name: str, value: str):
    done = subprocess.run([BINARY, "serve", "-m", TINY], capture_output=True,
                          text=True, timeout=30, env={**os.environ, name: value})
    assert done.returncode != 0
    assert name in done.stderr and value in done.stderr, done.stderr


@pytest.mark.real_model
def test_other_commands_read_theirs():
    done = subprocess.run(
        [BINARY, "run"], capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "REPRISE_MODEL": str(SMOLLM2),
             "REPRISE_PROMPT": "What is the capital of France? Answer in one "
                               "word.", "REPRISE_DTYPE": "float32"})
    assert done.stdout == "The capital of France is Paris.\n"
    done = subprocess.run([BINARY, "run", "-p", "x", "-m", TINY], text=True,
                          capture_output=True, timeout=30,
                          env={**os.environ, "REPRISE_TEMPERATURE": "hot"})
    assert done.returncode != 0 and "REPRISE_TEMPERATURE" in done.stderr
