"""The official openai client: models, chat, completions, streams, errors."""

import openai
import pytest

from serving import Server
from support import http


def model_of(api: openai.OpenAI) -> str:
    (model,) = api.models.list().data
    return model.id


def test_models(tiny: Server, client):
    api = client(tiny)
    name = model_of(api)
    assert api.models.retrieve(name).id == name
    with pytest.raises(openai.NotFoundError):
        api.models.retrieve("another")


@pytest.mark.real_model
def test_chat(smol: Server, client):
    api = client(smol)
    answer = api.chat.completions.create(
        model=model_of(api), temperature=0, max_completion_tokens=20,
        messages=[{"role": "user", "content":
                   "What is the capital of France? Answer in one word."}])
    assert answer.object == "chat.completion"
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == "The capital of France is Paris."
    assert choice.finish_reason == "stop"
    assert answer.usage.prompt_tokens == 42
    assert answer.usage.completion_tokens == 8
    assert answer.usage.total_tokens == 50


def test_chat_stream_equals_no_stream(smol: Server, client):
    api = client(smol)
    ask = {"model": model_of(api), "temperature": 0, "max_tokens": 12,
           "messages": [{"role": "user", "content": "Name the four seasons."}]}
    whole = api.chat.completions.create(**ask)
    chunks = list(api.chat.completions.create(**ask, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks)
    assert text == whole.choices[0].message.content and text
    reasons = [c.choices[0].finish_reason for c in chunks]
    assert reasons[-1] == whole.choices[0].finish_reason == "length"
    assert reasons[:-1] == [None] * (len(chunks) - 1)
    assert len({c.id for c in chunks}) == 1 and len(chunks) > 3


def test_completion(tiny: Server, client):
    api = client(tiny)
    answer = api.completions.create(
        model=model_of(api), prompt=[1, 2, 3], temperature=0, max_tokens=5,
        extra_body={"return_token_ids": True, "ignore_eos": True})
    assert answer.object == "text_completion"
    assert answer.usage.prompt_tokens == 3
    assert answer.usage.completion_tokens == 5
    assert answer.choices[0].finish_reason == "length"
    assert len(answer.choices[0].token_ids) == 5


def test_completion_stream(tiny: Server, client):
    api = client(tiny)
    ask = {"model": model_of(api), "prompt": "The quick", "temperature": 0,
           "max_tokens": 24}
    whole = api.completions.create(**ask)
    chunks = list(api.completions.create(**ask, stream=True))
    assert "".join(c.choices[0].text for c in chunks) == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason


def test_errors_reach_the_client_as_its_own_types(tiny: Server, client):
    api = client(tiny)
    with pytest.raises(openai.NotFoundError) as e:
        api.completions.create(model="nobody", prompt="x")
    assert e.value.code == "model_not_found" and "nobody" in e.value.message
    with pytest.raises(openai.BadRequestError) as e:
        api.completions.create(model=model_of(api), prompt="x", temperature=-1)
    assert e.value.param == "temperature"
    http.serves(tiny)


def test_seed_decides_what_is_drawn(tiny: Server, client):
    api = client(tiny)

    def draw(seed: int) -> str:
        return api.completions.create(
            model=model_of(api), prompt=[5, 6, 7], temperature=1.5, seed=seed,
            max_tokens=16).choices[0].text

    assert draw(1) == draw(1)
    assert len({draw(s) for s in range(4)}) > 1
