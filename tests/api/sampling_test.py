"""What the sampler's parameters do, through the official client: each test
fails when its parameter is ignored."""

from typing import Any

import openai
import pytest

from conftest import TINY_CONTEXT
from serving import Server
from support import http

PROMPT = [(7 * i + 3) % 480 for i in range(40)]
BANG = 0  # the fixture's id of "!"


def complete(api: openai.OpenAI, prompt: Any = PROMPT, tokens: int = 48,
             **more: Any):
    """A greedy completion that only its length ends; `more` as the client
    takes it, or else in extra_body."""
    named = {k: more.pop(k) for k in (
        "temperature", "top_p", "presence_penalty", "frequency_penalty",
        "logit_bias", "logprobs", "n", "best_of", "echo", "seed", "stop",
        "stream") if k in more}
    return api.completions.create(
        **{"model": "", "prompt": prompt, "temperature": 0, "max_tokens": tokens,
           **named},
        extra_body={"return_token_ids": True, "ignore_eos": True, **more})


def ids_of(answer) -> list[int]:
    return answer.choices[0].token_ids


@pytest.fixture
def api(tiny: Server, client) -> openai.OpenAI:
    return client(tiny)


def test_min_p(api: openai.OpenAI):
    """A share of 1 leaves only the likeliest token."""
    greedy = ids_of(complete(api))
    drawn = {"temperature": 2, "seed": 4}
    assert ids_of(complete(api, **drawn)) != greedy
    assert ids_of(complete(api, **drawn, min_p=1)) == greedy


@pytest.mark.parametrize("name", ["repetition_penalty", "repeat_penalty"])
def test_repetition_penalty(api: openai.OpenAI, name: str):
    """Divided by 100, no token of prompt or reply comes again while any other
    has a positive logit."""
    prompt = PROMPT + ids_of(complete(api))
    free = ids_of(complete(api, prompt))
    assert set(free) & set(prompt) or len(set(free)) < len(free)
    penalized = ids_of(complete(api, prompt, **{name: 100}))
    assert len(set(penalized)) == len(penalized)
    assert not set(penalized) & set(prompt)


def test_repeat_last_n(api: openai.OpenAI):
    """Nothing is penalized with a window of 0; one of 1 is the last token."""
    bias = {str(BANG): 30}
    free = ids_of(complete(api, logit_bias=bias))
    assert free == [BANG] * len(free)
    none = complete(api, logit_bias=bias, repetition_penalty=100,
                    repeat_last_n=0)
    assert ids_of(none) == free
    last = ids_of(complete(api, logit_bias=bias, repetition_penalty=100,
                           repeat_last_n=1))
    assert last[::2] == free[::2] and BANG not in last[1::2]
    everything = ids_of(complete(api, logit_bias=bias, repetition_penalty=100))
    assert everything.count(BANG) == 1


@pytest.mark.parametrize("presence,frequency", [
    (2, 0), (0, 1.5), (1, 1),
    # The fake model's logits lie too close: what is favoured need not be shown.
    pytest.param(-2, 0, marks=pytest.mark.real_model)])
def test_presence_and_frequency(api: openai.OpenAI, presence: float,
                                frequency: float):
    """Log-probabilities are those before any penalty, so they say what must
    have been chosen: the best after what its tokens so far cost."""
    answer = api.chat.completions.create(
        model="", messages=[{"role": "user", "content": "one two"}],
        temperature=0, max_tokens=96, logprobs=True, top_logprobs=20,
        presence_penalty=presence, frequency_penalty=frequency,
        extra_body={"ignore_eos": True})
    seen: dict[str, int] = {}
    changed = 0
    for entry in answer.choices[0].logprobs.content:
        def cost(top) -> float:
            count = seen.get(top.token, 0)
            return presence * (count > 0) + frequency * count
        best = max(entry.top_logprobs, key=lambda top: top.logprob - cost(top))
        assert entry.token == best.token
        changed += best.token != entry.top_logprobs[0].token
        seen[entry.token] = seen.get(entry.token, 0) + 1
    assert changed > 0, "the penalty decided nothing: choose another prompt"


@pytest.mark.parametrize("bias", [{"7": 100}, [[7, 100]], [["!", 100]]], ids=str)
def test_logit_bias_forces(tiny: Server, bias: Any):
    forced = BANG if bias == [["!", 100]] else 7
    answer = http.complete(tiny, PROMPT, max_tokens=5, ignore_eos=True,
                           logit_bias=bias)
    assert answer["choices"][0]["token_ids"] == [forced] * 5


@pytest.mark.parametrize("object_form", [False, True])
def test_logit_bias_bans(api: openai.OpenAI, object_form: bool):
    first = ids_of(complete(api, tokens=1))[0]
    bias: Any = {str(first): -100} if object_form else [[first, False]]
    banned = complete(api, logit_bias=bias)
    assert first not in ids_of(banned)


def test_special_names_in_a_bias_are_text(tiny: Server):
    """No word that a client writes becomes a control token."""
    answer = http.complete(tiny, PROMPT, max_tokens=3, ignore_eos=True,
                           logit_bias=[["<|end|>", 100]])
    assert max(answer["choices"][0]["token_ids"]) < 496


def test_stop_token_ids(api: openai.OpenAI):
    """They end the reply also where the model's own end does not."""
    ids = ids_of(complete(api))
    stop = ids[7]
    answer = complete(api, stop_token_ids=[stop])
    assert ids_of(answer) == ids[:ids.index(stop) + 1]
    assert answer.choices[0].finish_reason == "stop"


def test_min_tokens(api: openai.OpenAI):
    ids = ids_of(complete(api))
    stop = ids[2]
    answer = complete(api, stop_token_ids=[stop], min_tokens=8)
    kept = ids_of(answer)
    assert len(kept) >= 8 and stop not in kept[:8]


def test_min_tokens_hold_for_stop_strings(api: openai.OpenAI):
    """"!" all the way: the fourth one is the first that is looked at."""
    bang = {"logit_bias": {str(BANG): 100}, "stop": "!"}
    assert complete(api, **bang).choices[0].text == ""
    answer = complete(api, **bang, min_tokens=3)
    assert answer.choices[0].text == "!!!"
    assert answer.usage.completion_tokens == 4


@pytest.mark.parametrize("stop", ["!!", {"stop_token_ids": [BANG]}], ids=str)
def test_include_stop_str_in_output(api: openai.OpenAI, stop: Any):
    more = stop if isinstance(stop, dict) else {"stop": stop}
    more["logit_bias"] = {str(BANG): 100}
    for include in (False, True):
        text = complete(api, **more,
                        include_stop_str_in_output=include).choices[0].text
        expected = "!" if "stop_token_ids" in more else "!!"
        assert text == (expected if include else "")


def test_n_choices(api: openai.OpenAI):
    """The first is that of n = 1; each has its own seed, however many."""
    def draw(n: int) -> list[list[int]]:
        answer = complete(api, tokens=12, temperature=1.5, seed=9, n=n)
        assert [c.index for c in answer.choices] == list(range(n))
        assert answer.usage.prompt_tokens == len(PROMPT)
        assert answer.usage.completion_tokens == 12 * n
        return [c.token_ids for c in answer.choices]

    one, two, five = draw(1), draw(2), draw(5)
    assert five[:1] == one and five[:2] == two
    assert len({tuple(ids) for ids in five}) == 5


def test_n_streams_by_index(api: openai.OpenAI):
    ask = {"tokens": 12, "temperature": 1.5, "seed": 9, "n": 3}
    whole = complete(api, **ask)
    texts = ["", "", ""]
    reasons: list[Any] = [None, None, None]
    for chunk in complete(api, **ask, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert texts == [c.text for c in whole.choices]
    assert reasons == ["length"] * 3


def test_the_prompt_of_n_choices_is_evaluated_once(tiny: Server):
    prompt = [(11 * i + 5) % 480 for i in range(TINY_CONTEXT - 100)]
    answer = http.complete(tiny, prompt, n=4, max_tokens=2, ignore_eos=True)
    evaluated = [c["cache"]["evaluated_tokens"] for c in answer["choices"]]
    assert evaluated[0] == len(prompt) and max(evaluated[1:]) <= 2, evaluated
    assert answer["cache"]["evaluated_tokens"] == len(prompt)


def test_best_of_is_n_or_refused(api: openai.OpenAI):
    assert len(complete(api, tokens=1, n=2, best_of=2).choices) == 2
    with pytest.raises(openai.BadRequestError) as e:
        complete(api, n=2, best_of=3)
    assert e.value.param == "best_of"


def test_several_prompts(api: openai.OpenAI):
    prompts = [[5, 6, 7], PROMPT, [8, 9]]
    answer = complete(api, prompts, tokens=4, n=2)
    alone = [ids_of(complete(api, p, tokens=4)) for p in prompts]
    assert [c.index for c in answer.choices] == list(range(6))
    assert [c.token_ids for c in answer.choices] == [
        ids for ids in alone for _ in range(2)]
    assert answer.usage.prompt_tokens == sum(map(len, prompts))
    texts = api.completions.create(model="", prompt=["ab", "cd"], temperature=0,
                                   max_tokens=2, echo=True)
    assert [c.text[:2] for c in texts.choices] == ["ab", "cd"]


def test_n_predict(tiny: Server):
    ask = {"prompt": PROMPT, "ignore_eos": True}
    answer = http.post(tiny, http.COMPLETIONS, {**ask, "n_predict": 5}).json()
    assert answer["usage"]["completion_tokens"] == 5
    answer = http.post(tiny, http.COMPLETIONS, {**ask, "n_predict": -1}).json()
    assert answer["usage"]["total_tokens"] == TINY_CONTEXT
