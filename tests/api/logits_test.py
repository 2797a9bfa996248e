"""`reprise logits` against the fixtures' reference outputs, and what it
refuses."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from conftest import TINY
from serving import BINARY
from support.fixture_models import CASES, FIXTURES, reference


def logits(model: Path, out: Path, ids: str | Path = "-", *, text: str = "",
           state: str = "64MiB") -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(BINARY), "logits", str(model), "--ids", str(ids), "--out",
         str(out), "--state-memory", state],
        input=text, text=True, timeout=120, capture_output=True)


def test_every_architecture_is_here():
    assert {arch for arch, _ in CASES} >= {"llama", "qwen3", "glm4_moe_lite",
                                           "glm5_next", "gemma4", "gemma4_moe"}


@pytest.mark.real_model
@pytest.mark.parametrize("arch, kind", CASES)
def test_logits_are_the_references(tmp_path: Path, arch: str, kind: str):
    want, tolerance = reference(arch, kind)
    ids, out = tmp_path / "ids.json", tmp_path / "out.safetensors"
    ids.write_text(json.dumps(want["input_ids"].tolist()))
    done = logits(FIXTURES / arch / kind, out, ids)
    assert done.returncode == 0 and not done.stdout and not done.stderr
    got = load_file(out)
    assert set(got) == {"input_ids", "logits"}
    assert got["input_ids"].dtype == np.int32
    assert (got["input_ids"] == want["input_ids"]).all()
    assert got["logits"].dtype == np.float32
    assert got["logits"].shape == (len(want["input_ids"]), 512)
    worst = np.abs(got["logits"][want["positions"]] - want["logits"]).max()
    assert worst <= tolerance  # not a number: false
    if kind == "hf":
        top = json.loads((FIXTURES / arch / "golden.json").read_text())
        assert got["logits"].argmax(axis=1).tolist() == top["prompt_top1"]


def test_ids_are_read_in_every_form(tmp_path: Path):
    ids = [(7 * i) % 480 for i in range(70)]
    files = {}
    for name, text in {"json": json.dumps(ids), "spaces": " ".join(
            map(str, ids)), "lines": "\n".join(map(str, ids)) + "\n"}.items():
        files[name] = tmp_path / f"{name}.safetensors"
        assert logits(TINY, files[name], text=text).returncode == 0
    first, *others = [file.read_bytes() for file in files.values()]
    assert all(other == first for other in others)


def test_a_row_is_the_same_bits_whatever_follows(tmp_path: Path):
    """The logits of a prefix are the first rows of the whole."""
    ids = [(11 * i) % 480 for i in range(150)]
    rows = {}
    for count in (1, 63, 64, 65, 150):
        out = tmp_path / f"{count}.safetensors"
        logits(TINY, out, text=json.dumps(ids[:count]))
        rows[count] = load_file(out)["logits"]
    for count, some in rows.items():
        assert (some.view(np.uint32)
                == rows[150][:count].view(np.uint32)).all(), count


def test_a_long_prompt_says_how_far_it_is(tmp_path: Path):
    out = tmp_path / "out.safetensors"
    done = logits(TINY, out, text=" ".join(["5"] * 1100))
    assert done.returncode == 0
    assert done.stderr == "reprise: 1024 of 1100 tokens\n"
    assert load_file(out)["logits"].shape == (1100, 512)


REFUSED = {
    "nothing": ("", "no token ids"),
    "an empty array": ("[]", "no token ids"),
    "a word": ("1 2 x3", "'x3' (number 3)"),
    "a part of a number": ("1 2.5", "'2.5' (number 2)"),
    "text in JSON": ('[1, "2"]', '"2" (number 2)'),
    "a fraction in JSON": ("[0.5]", "0.5 (number 1)"),
    "too large for an integer": ("[1, 2, 99999999999]",
                                 "99999999999 (number 3)"),
    "far too large for one": ("[18446744073709551615]", "(number 1)"),
    "a word of many digits": ("99999999999", "'99999999999' (number 1)"),
    "broken JSON": ("[1, 2", "broken"),
    "past the vocabulary": ("[1, 511, 512]",
                            "512 (number 3 of 3) is not one of this model's, "
                            "which are 0 to 511"),
    "below it": ("-1", "-1 (number 1 of 1)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_ids_that_are_refused(tmp_path: Path, name: str):
    text, hint = REFUSED[name]
    done = logits(TINY, tmp_path / "out.safetensors", text=text)
    assert done.returncode == 1 and not done.stdout
    line, = done.stderr.splitlines()
    assert hint in line
    assert not list(tmp_path.iterdir()), "a file was left behind"


def test_files_that_are_not_there(tmp_path: Path):
    done = logits(TINY, tmp_path / "out.safetensors", tmp_path / "none.json")
    assert done.returncode == 1 and "none.json" in done.stderr
    done = logits(TINY, tmp_path / "none" / "out.safetensors", text="1 2")
    assert done.returncode == 1 and "could not be written" in done.stderr
    (tmp_path / "folder").mkdir()
    done = logits(TINY, tmp_path / "folder", text="1 2")
    assert done.returncode == 1 and "could not be written" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]
    done = logits(tmp_path / "none", tmp_path / "out.safetensors", text="1 2")
    assert done.returncode == 1 and f"{tmp_path / 'none'}'" in done.stderr


@pytest.mark.real_model  # the other counts its state otherwise
def test_more_than_the_state_holds(tmp_path: Path):
    done = logits(TINY, tmp_path / "out.safetensors", state="1MiB",
                  text=" ".join(["5"] * 600))
    assert done.returncode == 1 and "--state-memory" in done.stderr
    assert not list(tmp_path.iterdir())
