"""B77: a system or developer message that is not the first, or a second one,
was a 500. Here it is a prompt, or a 400 with what the template says."""

import pytest

from serving import Server
from support import http

STRICT = ("{%- for m in messages -%}"
          "{%- if m.role == 'system' and not loop.first -%}"
          "{{ raise_exception('System message must be at the beginning.') }}"
          "{%- endif -%}<|{{ m.role }}|>{{ m.content }}<|end|>{%- endfor -%}"
          "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}")
CASES = {
    "middle": ["user", "system", "user"],
    "last": ["user", "assistant", "system"],
    "developer-and-system": ["developer", "system", "user"],
    "two-developers": ["developer", "developer", "user"],
    "only-system": ["system"],
}


def ask(server: Server, roles: list[str], stream: bool):
    return http.post(server, http.CHAT, {
        "messages": [{"role": r, "content": f"I am {r}"} for r in roles],
        "max_tokens": 2, "stream": stream})


@pytest.mark.parametrize("roles", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("stream", [False, True])
def test_never_500(tiny: Server, smol: Server, roles: list[str], stream: bool):
    for server in (tiny, smol):
        response = ask(server, roles, stream)
        if response.status_code != 200:
            assert http.refused(response)["param"] == "messages"


@pytest.mark.parametrize("stream", [False, True])
def test_what_the_template_raises_is_the_answer(script, stream: bool):
    server: Server = script({"<|assistant|>": ["fine"]}, chat_template=STRICT)
    assert ask(server, ["system", "user"], stream).status_code == 200
    for name in ("middle", "last", "developer-and-system", "two-developers"):
        error = http.refused(ask(server, CASES[name], stream))
        assert "System message must be at the beginning." in error["message"]
        assert error["param"] == "messages"
    assert ask(server, ["system", "user"], stream).status_code == 200
