"""Servers that the tests share: one process a model and session, on a free
port, its log in build/test-logs, ended by its process id."""

from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest

from serving import BINARY, ROOT, SMOLLM2, Server

LOGS = ROOT / "build" / "test-logs"
TINY = ROOT / "tests" / "fixtures" / "llama" / "hf"
TINY_CONTEXT = 1024


def start(model: Path, *flags: str, log: str) -> Server:
    assert BINARY.exists(), f"{BINARY} is missing: run `make build`"
    LOGS.mkdir(parents=True, exist_ok=True)
    return Server(model, "--dtype", "float32", *flags, log=LOGS / f"{log}.log")


@pytest.fixture(scope="session")
def tiny() -> Iterator[Server]:
    """Three random layers, 512 ids; fast, and means nothing."""
    with start(TINY, "-c", str(TINY_CONTEXT), "--state-memory", "64MiB",
               log="tiny") as server:
        server.wait_ready()
        yield server


@pytest.fixture(scope="session")
def smol() -> Iterator[Server]:
    """The demo's real model."""
    with start(SMOLLM2, log="smollm2") as server:
        server.wait_ready()
        yield server


@pytest.fixture(scope="session")
def client() -> Callable[[Server], openai.OpenAI]:
    """The official client of a server, without its retries."""
    def make(server: Server) -> openai.OpenAI:
        return openai.OpenAI(base_url=server.url + "/v1", api_key="none",
                             max_retries=0, timeout=120)
    return make


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Iterator[Callable[..., Server]]:
    """serve(model, flags...): a ready server of this test's own."""
    running: list[Server] = []

    def make(model: Path, *flags: str) -> Server:
        server = start(model, *flags, log=request.node.name)
        running.append(server)
        server.wait_ready()
        return server

    yield make
    for server in running:
        server.stop()
