"""B75: templates with numeric access and other rarer Jinja failed to render.
Expected texts are what transformers' jinja2 makes of them (checked by hand)."""

import time
from pathlib import Path

import pytest

from conftest import start
from serving import Server
from support import http
from support.script_model import ScriptModel

MESSAGES = [{"role": "user", "content": "alpha"},
            {"role": "assistant", "content": "beta"},
            {"role": "user", "content": "gamma"}]
TEMPLATES = {
    "numeric access": (
        "{{ messages.0.role }}/{{ messages.2.content }}", "user/gamma"),
    "numeric access after a slice": (
        "{{ messages[1:].0.content }}{{ messages[::-1].0.content }}",
        "betagamma"),
    "previtem and nextitem": (
        "{% for m in messages %}[{{ loop.previtem.content if loop.previtem "
        "else '-' }}{{ m.content }}{{ loop.nextitem.content if not loop.last "
        "else '-' }}]{% endfor %}", "[-alphabeta][alphabetagamma][betagamma-]"),
    "namespace": (
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == "
        "'user' %}{% set ns.n = ns.n + 1 %}{% endif %}{% endfor %}{{ ns.n }}",
        "2"),
    "macro defaults": (
        "{% macro f(a, b='x', c=none) %}{{ a }}{{ b }}{{ c }}{% endmacro %}"
        "{{ f(1) }}{{ f(1, c=2) }}", "1xNone1x2"),
    "slices": (
        "{{ messages[0].content[1:3] }}{{ messages[-1].content[::-1] }}",
        "lpammag"),
    "whitespace control": (
        "{%- for m in messages -%}\n  {{- m.content }}\n{%- endfor %}",
        "alphabetagamma"),
    "lines of blocks": (
        "{% for m in messages %}\n  {% if true %}\n{{ m.content }}\n"
        "  {% endif %}\n{% endfor %}", "alpha\nbeta\ngamma\n"),
    "tojson": (
        "{{ messages[0] | tojson }}{{ '<a> & é' | tojson }}{{ 2.0 | tojson }}",
        '{"role": "user", "content": "alpha"}"<a> & é"2.0'),
}


def rendered(server: Server, model: ScriptModel) -> str:
    answer = http.post(server, http.CHAT, {
        "messages": MESSAGES, "max_tokens": 1, "return_token_ids": True})
    assert answer.status_code == 200, answer.text
    return model.text_of(answer.json()["prompt_token_ids"])


@pytest.mark.parametrize("name", TEMPLATES)
def test_renders_as_the_reference(script, name: str):
    source, expected = TEMPLATES[name]
    server = script({"<|assistant|>": ["x"]}, chat_template=source)
    assert rendered(server, ScriptModel({"<|assistant|>": ["x"]})) == expected


def test_strftime_now(script):
    server = script({"<|assistant|>": ["x"]},
                    chat_template="{{ strftime_now('%Y-%m-%d') }}")
    days = {time.strftime("%Y-%m-%d")}
    text = rendered(server, ScriptModel({"<|assistant|>": ["x"]}))
    days.add(time.strftime("%Y-%m-%d"))  # midnight may have passed
    assert text in days


def test_raise_exception_is_the_clients_error(script):
    server = script({"<|assistant|>": ["x"]}, chat_template=(
        "{% if messages.0.role != 'system' %}"
        "{{ raise_exception('begin with a system message') }}{% endif %}"))
    error = http.refused(http.post(server, http.CHAT, {"messages": MESSAGES}))
    assert "begin with a system message" in error["message"]
    http.serves(server)


def test_broken_template_is_refused_at_the_start(tmp_path: Path):
    folder = ScriptModel({"<|assistant|>": ["x"]}).write(
        tmp_path / "model", chat_template="one\n{% for %}\nthree")
    server = start(folder, log="b75-broken", status=1)
    assert server.process.wait(timeout=60) == 1
    server.stop()
    assert "line 2" in server.log_tail()
