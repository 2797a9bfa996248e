"""B100: a tied model that still ships its output head failed to load, or was
taken for an untied one."""

import json
from pathlib import Path

import pytest

from conftest import TINY, start
from support.checkpoints import WEIGHTS, load, variant
from support.fixture_models import FIXTURES
from support.replies import ask, fresh_ids

pytestmark = pytest.mark.real_model

HEAD = "lm_head.weight"


@pytest.mark.parametrize("model", [TINY, FIXTURES / "gemma4" / "hf"],
                         ids=["llama", "gemma4"])
def test_the_embedding_is_the_head(model: Path, tmp_path: Path):
    """With a head that is equal, with one that is not, and with none."""
    tensors = load(model / WEIGHTS)
    embedding = next(t for name, t in tensors.items()
                     if name.endswith("embed_tokens.weight"))
    dtype, shape, data = embedding
    width = len(data) // shape[0]
    other = (dtype, shape, data[width:] + data[:width])  # rows rotated by one
    replies = []
    for name, head in {"none": None, "equal": embedding,
                       "other": other}.items():
        now = {k: t for k, t in tensors.items() if k != HEAD}
        if head:
            now[HEAD] = head
        folder = variant(model, tmp_path / name, now, tie_word_embeddings=True)
        with start(folder, log=f"b100-{folder.name}") as server:
            server.wait_ready()
            replies.append(ask(server, fresh_ids(100, 40)))
    assert replies[0].ids == replies[1].ids == replies[2].ids
    assert replies[0].logprobs == replies[1].logprobs == replies[2].logprobs


def test_an_untied_head_is_needed(tmp_path: Path):
    """The flag decides, and not what happens to be in the file."""
    tensors = load(TINY / WEIGHTS)
    assert not json.loads((TINY / "config.json").read_text()
                          )["tie_word_embeddings"]
    del tensors[HEAD]
    folder = variant(TINY, tmp_path / "headless", tensors)
    with start(folder, log="b100-headless", status=1) as server:
        assert server.process.wait(timeout=20) == 1
        assert HEAD in server.log_tail()
