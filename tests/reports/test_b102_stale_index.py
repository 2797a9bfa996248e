"""B102: an index that names missing shards was believed, or ignored."""

import json
from pathlib import Path

import pytest

from conftest import TINY, start
from serving import Server
from support.checkpoints import WEIGHTS, load, variant
from support.replies import ask, fresh_ids
from support.safetensors_file import Loaded, save

pytestmark = pytest.mark.real_model

PROMPT = fresh_ids(102, 40)
FIRST, SECOND = (f"model-0000{i}-of-00002.safetensors" for i in (1, 2))


def halves() -> tuple[Loaded, Loaded]:
    tensors = load(TINY / WEIGHTS)
    names = sorted(tensors)
    return ({n: tensors[n] for n in names[::2]},
            {n: tensors[n] for n in names[1::2]})


def write_index(folder: Path) -> None:
    first, second = halves()
    places = {**dict.fromkeys(first, FIRST), **dict.fromkeys(second, SECOND)}
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": places}))


def sharded(folder: Path) -> Path:
    variant(TINY, folder, {})
    (folder / WEIGHTS).unlink()
    for name, half in zip((FIRST, SECOND), halves()):
        save(folder / name, half)
    write_index(folder)
    return folder


def same_as(tiny: Server, folder: Path) -> str:
    """Loads and says what the whole model says; gives the log."""
    with start(folder, log=f"b102-{folder.name}") as server:
        server.wait_ready()
        assert ask(server, PROMPT).logprobs == ask(tiny, PROMPT).logprobs
        return server.log_tail()


def test_a_complete_file_beside_an_index_of_absent_shards(tiny: Server,
                                                          tmp_path: Path):
    folder = variant(TINY, tmp_path / "stale", load(TINY / WEIGHTS))
    write_index(folder)
    log = same_as(tiny, folder)
    assert FIRST in log and "warning" in log, log


def test_a_stray_file_is_no_weight(tiny: Server, tmp_path: Path):
    folder = sharded(tmp_path / "stray")
    zeros = {name: (dtype, shape, bytes(len(data)))
             for name, (dtype, shape, data) in load(TINY / WEIGHTS).items()}
    save(folder / "model-stray.safetensors", zeros)
    save(folder / WEIGHTS, zeros)
    same_as(tiny, folder)


@pytest.mark.parametrize("left", ["nothing", "an incomplete file"])
def test_a_missing_shard_is_named(left: str, tmp_path: Path):
    folder = sharded(tmp_path / "missing")
    (folder / SECOND).unlink()
    if left != "nothing":
        save(folder / WEIGHTS, halves()[0])
    with start(folder, log=f"b102-{left.split()[0]}", status=1) as server:
        assert server.process.wait(timeout=20) == 1
        assert SECOND in server.log_tail()
