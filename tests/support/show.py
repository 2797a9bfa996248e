"""`reprise show`, run."""

import json
import subprocess
from pathlib import Path
from typing import Any

from serving import BINARY


def command(*arguments: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run([str(BINARY), *map(str, arguments)], text=True,
                          timeout=60, capture_output=True)


def show(model: Path, *flags: str) -> str:
    done = command("show", model, *flags)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def report(model: Path, *flags: str) -> dict[str, Any]:
    return json.loads(show(model, "--json", *flags))


def families(kind: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(f["name"], f["growth"], f["row_elements"])
            for f in kind["families"]]
