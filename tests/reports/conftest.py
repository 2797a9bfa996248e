"""Servers with models that say what a report needs, and with the small
fixtures of each kind of state."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import start
from serving import Server
from support.fixture_models import FIXTURES
from support.script_model import ScriptModel
from support.servers import TestServer

Script = Callable[..., Server]
Fixture = Callable[..., TestServer]
# How state is kept: name -> flags of the server.
KV_MODES: dict[str, tuple[str, ...]] = {
    "plain": (), "kv8": ("--kv-bits", "8"), "kv4": ("--kv-bits", "4"),
    "kv8-from-512": ("--kv-bits", "8", "--quantized-kv-start", "512")}
HYBRID = "glm5_next"  # recurrent layers beside latent attention with an index


@pytest.fixture(scope="session")
def fixture() -> Iterator[Fixture]:
    """fixture(architecture, folder, flags...): a ready server of that small
    checkpoint, one for all tests that ask for the same."""
    running: dict[tuple[str, ...], TestServer] = {}

    def get(*key: str) -> TestServer:
        if key not in running:
            arch, kind, *flags = key
            server = start(FIXTURES / arch / kind, "-c", "32768",
                           "--state-memory", "256MiB", "--parallel", "4", *flags,
                           log=f"reports-{len(running)}-{arch}-{kind}")
            running[key] = server
            server.wait_ready()
        return running[key]

    yield get
    for server in running.values():  # also when one of them ended badly
        server.stop()
    for server in running.values():
        server.check_end()


@pytest.fixture
def script(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Script]:
    """script({prompt end: pieces}, special tokens, tokenizer config...): a
    ready server."""
    running: list[Server] = []

    def make(scripts: dict[str, list[str | bytes]],
             special: tuple[str, ...] = (), **config: Any) -> Server:
        model = ScriptModel(scripts, special)
        assert model.margin() > 50, "the table is not unambiguous"
        folder = model.write(tmp_path / f"script{len(running)}", **config)
        server = start(folder, "--state-memory", "16MiB",
                       log=f"{request.node.name}-{len(running)}")
        running.append(server)
        server.wait_ready()
        return server

    yield make
    for server in running:
        server.stop()
