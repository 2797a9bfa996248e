"""The repository as the repo tests see it: its files, the map of folders."""

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def files() -> tuple[Path, ...]:
    """Tracked files and new ones that git does not ignore, as they are."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return tuple(sorted(Path(n) for n in set(names)
                        if n and (ROOT / n).is_file()))


def matching(pattern: str) -> list[Path]:
    return [f for f in files() if re.search(pattern, f.as_posix())]


@cache
def text(file: Path) -> str:
    return (ROOT / file).read_text(encoding="utf-8", errors="replace")


def is_test(file: Path) -> bool:
    return (file.name.endswith("_test.cpp") or file.name.startswith("test_")
            or file.parts[0] == "tests")


def includes(file: Path) -> list[str]:
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]',
                      text(file), re.MULTILINE)


@cache
def folder_map() -> dict[str, dict[str, set[str] | None]]:
    """src/README.md's table: folder -> what it may include, by folder; the
    value is the only headers allowed there, or None for all of them."""
    rows = re.findall(r"^\|\s*`(\w+)/`\s*\|[^|]*\|([^|]*)\|",
                      text(Path("src/README.md")), re.MULTILINE)
    order = [name for name, _ in rows]
    result: dict[str, dict[str, set[str] | None]] = {}
    for i, (name, may) in enumerate(rows):
        if may.strip() == "all below":
            result[name] = {below: None for below in order[i + 1:]}
            continue
        result[name] = {}
        for item in may.split(","):
            found = re.fullmatch(r"\s*(\w+)\s*(?:\(`([\w.]+)`\))?\s*", item)
            if found:
                only = {f"{found[1]}/{found[2]}"} if found[2] else None
                result[name][found[1]] = only
            elif item.strip() != "–":
                raise ValueError(f"src/README.md: cannot read {item!r}")
    return result
