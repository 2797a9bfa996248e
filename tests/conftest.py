"""Servers that the tests share: one process a model and session, on a free
port, its log in build/test-logs, ended by its process id. A test fails when a
server of its own ends otherwise than it said, or when any process of ours left
a sanitizer's report."""

from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest

from serving import BINARY, SMOLLM2, Server
from support import sanitizers
from support.servers import LOGS, TINY, TestServer, start

TINY_CONTEXT = 1024


def pytest_configure() -> None:
    LOGS.mkdir(parents=True, exist_ok=True)
    sanitizers.set_options(LOGS)


def pytest_collection_modifyitems(config: pytest.Config,
                                  items: list[pytest.Item]) -> None:
    if BINARY.name != "reprise_fake":
        return
    out = [i for i in items if i.get_closest_marker("real_model")]
    config.hook.pytest_deselected(items=out)
    items[:] = [i for i in items if i not in out]


@pytest.fixture(autouse=True)
def clean_ends() -> Iterator[None]:
    """Of the servers that ended with this test, and of all that it ran."""
    yield
    for server in TestServer.take_ended():
        server.check_end()
    sanitizers.check_reports(LOGS)


@pytest.fixture(scope="session")
def tiny() -> Iterator[Server]:
    """Three random layers, 512 ids; fast, and means nothing."""
    with start(TINY, "-c", str(TINY_CONTEXT), "--state-memory", "64MiB",
               log="tiny") as server:
        server.wait_ready()
        yield server
        server.check_end()


@pytest.fixture(scope="session")
def smol() -> Iterator[Server]:
    """The demo's real model."""
    with start(SMOLLM2, log="smollm2") as server:
        server.wait_ready()
        yield server
        server.check_end()


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
