"""`reprise template`: rendered bytes as a shell sees them."""

import json
import subprocess
from pathlib import Path

import pytest

from serving import BINARY, ROOT

CASES = json.loads((ROOT / "tests/fixtures/templates/cases.json").read_text())


def render(*arguments: str, stdin: bytes = b"", zone: str = "UTC"):
    return subprocess.run([str(BINARY), "template", *arguments], input=stdin,
                          timeout=60, capture_output=True, env={"TZ": zone})


@pytest.mark.parametrize("case", [c for c in CASES if c["name"] in (
    "loop_else", "macro_defaults", "tojson_sort_keys", "concat_tilde",
    "think_split")], ids=lambda c: c["name"])
def test_bytes_are_those_of_the_reference(tmp_path: Path, case: dict):
    source = tmp_path / "t.jinja"
    source.write_text(case["template"])
    done = render(str(source), "--context", "-", "--now",
                  str(case.get("now", 0)),
                  stdin=json.dumps(case["context"]).encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == case["expected"].encode()


def test_no_newline_is_added_and_now_is_the_clock_s(tmp_path: Path):
    context = tmp_path / "c.json"
    context.write_text("{\"name\": \"w\u00f6rld\"}")
    source = b"hi {{ name }} {{ strftime_now('%Y') }}"
    done = render("-", "--context", str(context), "--now", "86400",
                  stdin=source)
    assert done.stdout == "hi wörld 1970".encode()
    assert render("-", "--context", str(context), stdin=source).stdout > (
        "hi wörld 2000".encode())


@pytest.mark.parametrize("source,context,said", [
    (b"a\nb\n{% if %}", b"{}", b"line 3"),
    (b"a\n{{ raise_exception('no such role') }}", b"{}", b"no such role"),
    (b"a", b"[1]", b"not a JSON object"),
    (b"a", b"{", b"not a JSON object"),
])
def test_faults_are_said_and_nothing_is_printed(tmp_path: Path, source: bytes,
                                                context: bytes, said: bytes):
    (tmp_path / "t").write_bytes(source)
    done = render(str(tmp_path / "t"), "--context", "-", stdin=context)
    assert done.returncode == 1 and said in done.stderr and not done.stdout


def test_a_file_that_is_not_there(tmp_path: Path):
    done = render(str(tmp_path / "none"), "--context", "-", stdin=b"{}")
    assert done.returncode == 1 and b"none" in done.stderr
    assert render("-", "--context", "-").returncode == 1
