"""State in fewer bits, through flags: what it saves, and that replies and reuse
are as regular as without."""

import subprocess

import pytest

from conftest import start
from serving import BINARY
from support import http, metrics
from support.fixture_models import FIXTURES
from support.show import report, show

pytestmark = pytest.mark.real_model

MODEL = FIXTURES / "glm4_moe_lite/hf"


def test_show_says_what_it_saves():
    latent, rope_key = report(MODEL, "--kv-bits", "8", "--quantized-kv-start",
                              "300")["state"]["kinds"][0]["families"]
    assert latent["row_bytes"] == 128 + 2 * 2 * 4  # fields, scales and biases
    assert (latent["bits"], latent["bits_from"]) == (8, 512)
    assert (rope_key["bits"], rope_key["row_bytes"]) == (0, 32 * 4)
    text = show(MODEL, "--kv-bits", "4")
    assert "latent: per token, 128 x float32, in 4 bits\n" in text
    assert "rope_key: per token, 32 x float32\n" in text


@pytest.mark.parametrize("flag, value", [
    ("--kv-bits", "5"), ("--kv-group-size", "48"),
    ("--quantized-kv-start", "-1")])
def test_refuses(flag: str, value: str):
    done = subprocess.run([str(BINARY), "serve", str(MODEL), flag, value],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode != 0
    assert flag in done.stderr and value in done.stderr


@pytest.mark.parametrize("flags", [
    ("--kv-bits", "8"), ("--kv-bits", "4"),
    ("--kv-bits", "8", "--quantized-kv-start", "256")])
def test_turns(flags: tuple[str, ...]):
    """A text that grows past 256 tokens: replies as without the cache."""
    with start(MODEL, "-c", "1024", "--state-memory", "64MiB", *flags,
               log="kv" + "".join(flags)) as server:
        server.wait_ready()
        assert metrics.read(server)["reprise_kv_bits"] == int(flags[1])
        prompt = [(7 * i) % 480 for i in range(230)]
        for _ in range(4):
            first, again, cold = (
                http.complete(server, prompt, max_tokens=20, ignore_eos=True,
                              cache_prompt=cache)
                for cache in (True, True, False))
            ids = first["choices"][0]["token_ids"]
            assert again["choices"][0]["token_ids"] == ids
            assert cold["choices"][0]["token_ids"] == ids
            assert again["cache"]["evaluated_tokens"] == 1
            assert cold["cache"]["evaluated_tokens"] == len(prompt)
            prompt = prompt + ids + [11, 12, 13]
        log = server.log.read_text()
        server.check_end()
    assert "quantized to" in log and "not quantized: rope_key" in log
