"""`reprise run` and `reprise --version` as a shell sees them."""

import subprocess

import pytest

from conftest import TINY
from serving import BINARY


def run(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(BINARY), *arguments], text=True, timeout=60,
                          stderr=subprocess.PIPE, **options)


def test_run_prints_only_the_text() -> None:
    done = run("run", "-m", str(TINY), "-p", "hello", "-n", "4",
               stdout=subprocess.PIPE)
    assert done.returncode == 0 and done.stdout and not done.stderr


def test_a_reply_that_cannot_be_written_is_a_failure() -> None:
    with open("/dev/full", "w") as full:
        done = run("run", "-m", str(TINY), "-p", "hello", "-n", "4",
                   stdout=full)
    assert done.returncode == 1
    assert "standard output could not be written" in done.stderr


def test_chat_in_a_pipe_ends_with_its_input() -> None:
    done = run("chat", "-m", str(TINY), "-c", "256", input="hello\nagain\n",
               stdout=subprocess.PIPE)
    assert done.returncode == 0 and done.stdout


@pytest.mark.real_model
def test_version_names_mlx_and_device() -> None:
    done = run("--version", stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert "MLX 0.32.4" in done.stdout and "cpu" in done.stdout
