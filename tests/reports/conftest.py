"""Servers with models that say what a report needs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import start
from serving import Server
from support.script_model import ScriptModel

Script = Callable[..., Server]


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
