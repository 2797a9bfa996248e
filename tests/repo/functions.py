"""How long the functions of a C++ or Python file are, without a compiler."""

import ast
import re

_SKIP = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?:.*?)\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'"
    r"|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE)
_SCOPE = re.compile(
    r'^\s*(?:(?:inline|static|typedef|constexpr)\s+|template\s*<[^{]*>\s*)*'
    r"(?:namespace|class|struct|union|enum|extern)\b(?![^{]*\)\s*(?:const)?\s*$)")


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def without_comments(source: str) -> str:
    return _SKIP.sub(
        lambda m: _blank(m) if m[0].startswith(("//", "/*")) else m[0], source)


def cpp_functions(source: str) -> list[tuple[str, int]]:
    """(head, lines) of every outermost function body: from the first line of
    its head to its closing brace. Lambdas count into what holds them."""
    code = _SKIP.sub(_blank, source)
    found: list[tuple[str, int]] = []
    scopes, start, i = 0, 0, 0  # open namespaces and classes; start of the head
    while i < len(code):
        c = code[i]
        if c == ";":
            start = i + 1
        elif c == "}":
            scopes, start = max(0, scopes - 1), i + 1
        elif c == "{":
            head = code[start:i]
            if _SCOPE.match(head):
                scopes, start = scopes + 1, i + 1
            else:
                end = _body_end(code, i)
                if "(" in head:
                    first = start + len(head) - len(head.lstrip())
                    name = " ".join(head.split())
                    found.append((name, code.count("\n", first, end) + 1))
                start, i = end, end - 1
        i += 1
    return found


def _body_end(code: str, i: int) -> int:
    """Past the brace that closes the one at i, and past what belongs to the
    same definition: `: a_{1}, b_{2} { body }`."""
    while True:
        depth = 0
        while i < len(code):
            depth += {"{": 1, "}": -1}.get(code[i], 0)
            i += 1
            if depth == 0:
                break
        more = re.compile(r"\s*(?:,\s*[\w:<>]+\s*(?:\([^{}]*?\)\s*,\s*[\w:]+\s*)*)?"
                          r"(?=\{)").match(code, i)
        if not more:
            return i
        i = more.end()


def python_functions(source: str) -> list[tuple[str, int]]:
    return [(node.name, node.end_lineno - node.lineno + 1)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
