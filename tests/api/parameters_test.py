"""Parameters: wrong types and values, not served ones, unknown ones."""

from typing import Any

import pytest

from serving import Server
from support import http

HUGE = 10 ** 30
BAD_VALUES: list[tuple[str, Any]] = [
    ("temperature", "hot"), ("temperature", -0.1), ("temperature", 2.5),
    ("temperature", [1]), ("temperature", True),
    ("top_p", 0), ("top_p", -1), ("top_p", 1.5), ("top_p", "x"),
    ("top_k", -2), ("top_k", 1.5), ("top_k", HUGE), ("top_k", "many"),
    ("max_tokens", -1), ("max_tokens", "10"),
    ("max_tokens", 1.5), ("max_tokens", HUGE),
    ("seed", "x"), ("seed", 1.5), ("seed", HUGE),
    ("stop", 5), ("stop", [5]), ("stop", {"a": 1}), ("stop", ["x"] * 1000),
    ("stream", "yes"), ("stream", 1), ("stream_options", "usage"),
    ("stream_options", {"include_usage": "yes"}),
    ("ignore_eos", 1), ("cache_prompt", "no"), ("return_token_ids", "yes"),
    ("model", 7),
    ("min_p", 2), ("min_p", "x"), ("repetition_penalty", 0),
    ("repetition_penalty", 101), ("repeat_penalty", -1), ("repeat_last_n", -2),
    ("presence_penalty", 3), ("frequency_penalty", -3), ("n", 0), ("n", 129),
    ("n", "two"), ("best_of", 0), ("min_tokens", -1), ("min_tokens", 2),
    ("stop_token_ids", [512]), ("stop_token_ids", 5),
    ("logit_bias", {"512": 1}), ("logit_bias", {"x": 1}),
    ("logit_bias", {"1": 101}), ("logit_bias", [[1]]), ("logit_bias", 5),
    ("logprobs", 2.5), ("logprobs", "x"), ("prompt_logprobs", 21),
    ("n_predict", -2), ("include_stop_str_in_output", 1),
]
NOT_SERVED: list[tuple[str, Any]] = [
    ("best_of", 3), ("typical_p", 0.5), ("grammar", "root ::= \"a\""),
]
NOT_SERVED_CHAT: list[tuple[str, Any]] = [
    ("response_format", {"type": "json_object"}), ("echo", True),
    ("tools", [{"type": "function", "function": {"name": "f"}}]),
    ("reasoning_effort", "low"),
]
NOT_SERVED_COMPLETIONS: list[tuple[str, Any]] = [
    ("suffix", "end"), ("top_logprobs", 3),
]
HARMLESS: dict[str, Any] = {
    "n": 1, "frequency_penalty": 0, "presence_penalty": 0, "user": "me",
    "logit_bias": {}, "metadata": {"a": "b"}, "service_tier": "auto",
    "no_such_parameter": {"deep": [1, 2]}, "top_k": -1, "top_p": 1,
    "stop": None, "seed": None, "temperature": None,
}


def label(value: Any) -> str:
    return str(value)[:20]


def post(server: Server, path: str, **more: Any):
    body: dict[str, Any] = {"max_tokens": 1, **more}
    if path == http.CHAT:
        body.setdefault("messages", [{"role": "user", "content": "x"}])
    else:
        body.setdefault("prompt", "x")
    return http.post(server, path, body)


@pytest.mark.parametrize("name,value", BAD_VALUES, ids=label)
def test_bad_values_are_named(tiny: Server, name: str, value: Any):
    for path in (http.CHAT, http.COMPLETIONS):
        error = http.refused(post(tiny, path, **{name: value}))
        assert error["param"].split(".")[0].split("[")[0] == name, error
        assert name in error["message"]
    http.serves(tiny)


def test_chat_template_kwargs_must_be_an_object(tiny: Server):
    error = http.refused(post(tiny, http.CHAT, chat_template_kwargs=[1]))
    assert error["param"] == "chat_template_kwargs"
    answer = post(tiny, http.CHAT, chat_template_kwargs={"role": "x"})
    assert answer.status_code == 200


@pytest.mark.parametrize("path,name,value", [
    *((http.CHAT, *case) for case in NOT_SERVED + NOT_SERVED_CHAT),
    *((http.COMPLETIONS, *case) for case in NOT_SERVED + NOT_SERVED_COMPLETIONS),
], ids=label)
def test_known_parameters_not_served_are_named(tiny: Server, path: str,
                                               name: str, value: Any):
    error = http.refused(post(tiny, path, **{name: value}))
    assert error["param"].split(".")[0] == name, error
    assert name in error["message"]


@pytest.mark.parametrize("path", [http.CHAT, http.COMPLETIONS])
def test_harmless_and_unknown_parameters_are_ignored(tiny: Server, path: str):
    answer = post(tiny, path, **HARMLESS)
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize("text", [
    b"NaN", b"-Infinity", b"1e999", b"-1e999"])
def test_numbers_that_json_does_not_have(tiny: Server, text: bytes):
    for path in (http.CHAT, http.COMPLETIONS):
        http.refused(http.post(tiny, path, b'{"prompt": "x", "messages": '
                     b'[{"role": "user", "content": "x"}], "temperature": '
                     + text + b"}"))
    http.serves(tiny)


@pytest.mark.parametrize("path", [http.CHAT, http.COMPLETIONS])
def test_unknown_model_is_404(tiny: Server, path: str):
    error = http.refused(post(tiny, path, model="gpt-nobody"), 404)
    assert error["code"] == "model_not_found"
    assert "gpt-nobody" in error["message"]
    assert post(tiny, path).status_code == 200, "no model means the loaded one"


@pytest.mark.parametrize("stop", ["zz", ["zz"], ["a", "b", "c", "d"], []])
def test_stop_in_every_form(tiny: Server, stop: Any):
    assert post(tiny, http.COMPLETIONS, stop=stop).status_code == 200


def test_max_completion_tokens(tiny: Server):
    body = {"messages": [{"role": "user", "content": "x"}],
            "max_completion_tokens": 3, "ignore_eos": True}
    answer = http.post(tiny, http.CHAT, body).json()
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["choices"][0]["finish_reason"] == "length"
    error = http.refused(http.post(
        tiny, http.CHAT, {**body, "max_completion_tokens": 0}))
    assert error["param"] == "max_completion_tokens"
