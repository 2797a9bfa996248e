"""The house rules that a script can hold. What each is for: CONTRIBUTING.md."""

import json
import re
from pathlib import Path

import pytest

from repo import functions, tree

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
CPP = r"\.(h|cpp|cc|cu)$"
RATCHET = Path("tests/repo/ratchet.json")


def src_folder(file: Path) -> str:
    return file.parts[1] if len(file.parts) > 2 else ""


def folder_edges() -> dict[tuple[str, str], list[str]]:
    """(folder, included folder) -> the includes. Tests may wire what an app
    would wire, so they are left out."""
    edges: dict[tuple[str, str], list[str]] = {}
    for file in tree.matching(r"^src/.*" + CPP):
        if tree.is_test(file):
            continue
        for name in tree.includes(file):
            to = name.split("/")[0]
            if to in tree.folder_map() and to != src_folder(file):
                edges.setdefault((src_folder(file), to), []).append(
                    f"{file}: {name}")
    return edges


def test_every_folder_is_on_the_map():
    folders = {src_folder(f) for f in tree.matching(r"^src/\w+/")}
    assert folders == set(tree.folder_map()), "src/README.md and src/ differ"


def test_includes_point_down_the_map():
    wrong = []
    for (source, to), uses in folder_edges().items():
        allowed = tree.folder_map()[source]
        if to not in allowed:
            wrong += uses
        elif allowed[to] is not None:
            wrong += [u for u in uses if u.split(": ")[1] not in allowed[to]]
    assert not wrong, "not in src/README.md's table:\n" + "\n".join(wrong)


def test_no_two_folders_include_each_other():
    edges = folder_edges()
    both = sorted((a, b) for a, b in edges if a < b and (b, a) in edges)
    assert not both, f"folders that include each other: {both}"


def lengths() -> dict[str, int]:
    """What is over a limit: "file" or "file: head" -> lines."""
    over: dict[str, int] = {}
    for file in tree.matching(CPP + r"|\.(py|rs)$"):
        source = tree.text(file)
        lines = source.count("\n")
        if lines > FILE_LINES_MAX:
            over[str(file)] = lines
        found = (functions.python_functions(source) if file.suffix == ".py"
                 else [] if file.suffix == ".rs"
                 else functions.cpp_functions(source))
        for head, count in found:
            if count > FUNCTION_LINES_MAX:
                over[f"{file}: {head}"] = count
    return over


def headers_of(source: Path) -> set[str]:
    """x.h beside x.cpp; without one, our headers that it includes, one of which
    declares what it implements."""
    own = source.with_suffix(".h")
    if own in tree.files():
        return {own.relative_to("src").as_posix()}
    return {name for name in tree.includes(source)
            if Path("src", name) in tree.files()
            and Path("src", name).parts[1] == source.parts[1]}


def untested() -> set[str]:
    """Sources whose header no test includes (those in the ratchet say why)."""
    included = {name for file in tree.files() if tree.is_test(file)
                and file.suffix == ".cpp" for name in tree.includes(file)}
    return {str(file) for file in tree.matching(r"^src/.*\.cpp$")
            if not tree.is_test(file) and not headers_of(file) & included}


def ratchet() -> dict:
    return json.loads(tree.text(RATCHET))


def test_lengths_only_shrink():
    listed, now = ratchet()["lengths"], lengths()
    grown = {k: v for k, v in now.items() if v > listed.get(k, 0)}
    slack = {k: v for k, v in listed.items() if now.get(k, 0) < v}
    assert not grown, (f"over {FILE_LINES_MAX} lines a file or "
                       f"{FUNCTION_LINES_MAX} a function: {grown}")
    assert not slack, f"shorter now, so lower or drop it in {RATCHET}: {slack}"


def test_every_source_has_a_test():
    listed, now = set(ratchet()["untested"]), untested()
    assert not now - listed, f"no test includes the header of {now - listed}"
    assert not listed - now, f"tested now, so drop it in {RATCHET}: {listed - now}"


def test_nobody_includes_all_of_mlx():
    everything = "mlx/" + "mlx.h"  # compiles for seconds, hides what is used
    wrong = [str(f) for f in tree.matching(CPP) if everything in tree.includes(f)]
    assert not wrong, f"{everything} is included by {wrong}"


def architectures() -> set[str]:
    """File and registered names of every model file."""
    names = set()
    for file in tree.matching(r"^src/models/[^/]*\.cpp$"):
        registered = re.findall(r'^REGISTER_MODEL\(\s*"([^"]+)"',
                                tree.text(file), re.MULTILINE)
        names |= {file.stem, *registered} if registered else set()
    return names


def test_architectures_are_named_in_models_only():
    """In code and strings; a comment may name where a fact comes from."""
    names = architectures()
    assert names, "src/models has no architecture"
    word = re.compile(rf"\b({'|'.join(sorted(names))})\b(?![-.]\w)",
                      re.IGNORECASE)
    wrong = [f"{f}: {m[0]}" for f in tree.matching(r"^(src|apps)/.*" + CPP)
             if not tree.is_test(f) and src_folder(f) != "models"
             for m in word.finditer(functions.without_comments(tree.text(f)))]
    assert not wrong, "architecture names outside src/models:\n" + "\n".join(wrong)


BANNED = {
    "a path of one machine":
        r"(?:^|[^\w.-])/(?:work|farm|root|home/\w+)/",
    "a package registry or its settings":
        r"pypi\.org|pythonhosted|(?<!')crates\.io(?!-index)|huggingface\.co"
        r"|npmjs|deb\.debian|anaconda\.org|index-url|extra-index|find-links",
}


@pytest.mark.parametrize("what", BANNED)
def test_no_file_names(what: str):
    banned = re.compile(BANNED[what], re.MULTILINE)
    wrong = [f"{f}: {m[0]!r}" for f in tree.files()
             if f != Path("tests/repo/repo_test.py") and f.name != "Cargo.lock"
             and f.suffix not in {".safetensors", ".gguf"}
             for m in banned.finditer(tree.text(f))]
    assert not wrong, f"{what}:\n" + "\n".join(wrong)


def test_documented_commands_exist():
    targets = set(re.findall(r"^([a-z]+):", tree.text(Path("Makefile")), re.M))
    wrong = [f"{f}: make {name}" for f in tree.matching(r"\.md$")
             for name in re.findall(r"(?:`|^\s*)make ([a-z]+)", tree.text(f), re.M)
             if name not in targets]
    assert not wrong, f"no such target in the Makefile: {wrong}"
    assert {"demo", "test"} <= targets


def test_links_between_documents_resolve():
    wrong = []
    for file in tree.matching(r"\.md$"):
        for link in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", tree.text(file)):
            if "://" in link or link.startswith("mailto:"):
                continue
            if not (tree.ROOT / file.parent / link).exists():
                wrong.append(f"{file}: {link}")
    assert not wrong, "links that lead nowhere:\n" + "\n".join(wrong)
