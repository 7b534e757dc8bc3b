"""What a request gets does not depend on what else is in its batch, and ends where it should."""

import pytest
import torch

from ke_core.errors import ContextOverflow, ModelUnavailable
from ke_core.models.local import memory
from ke_core.models.local.forward import Forward
from ke_core.models.local.memory import BatchSize
from ke_core.requests import Generate, Score
from ke_core.testing.tiny import tiny_model

HEAD = "Question: What is the capital of Italy? Answer: Rome.\n" * 6
PROMPTS = [HEAD + "Who is " + "the author of " * n + "Misery?" for n in range(9)]


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama")


def free_text(model, prompt, tokens=24):
    return model.generate([Generate(prompt=prompt, max_tokens=tokens)])[0].text


@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("family", ["llama", "gptj"])
def test_the_same_text_whatever_the_batch(family, size):
    prompts = [*PROMPTS, "", "alone", *PROMPTS[:2]]
    alone = [free_text(tiny_model(family), prompt) for prompt in prompts[:4]]
    model = tiny_model(family)
    model._runner.size.limit = size
    requests = [Generate(prompt=prompt, max_tokens=8 + 4 * (at % 5)) for at, prompt in enumerate(prompts)]
    whole = tiny_model(family).generate(requests)
    assert model.generate(requests) == whole
    assert model.batch_size == size
    assert [one.text for one in model.generate([Generate(prompt=p, max_tokens=24) for p in prompts[:4]])] == alone


def test_prompts_read_in_several_passes_give_the_same(monkeypatch, model):
    requests = [Generate(prompt=prompt, max_tokens=6) for prompt in PROMPTS]
    scores = [Score(prompt=prompt, continuations=(" King", " no")) for prompt in PROMPTS]
    whole, scored = model.generate(requests), model.score(scores)
    monkeypatch.setitem(memory.READ, "cpu", 40)
    assert model.generate(requests) == whole
    for one, other in zip(model.score(scores), scored, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_v8_padding_changes_no_rows_text(model):
    short, long = "Who?", "Question: " + "the author of " * 30
    assert model.generate([Generate(prompt=short), Generate(prompt=long)])[0].text == free_text(model, short, 64)


def test_v5_tokens_are_counted_not_characters(model):
    result = model.generate([Generate(prompt="Who is the author of Misery?", max_tokens=7)])[0]
    assert (result.tokens, result.finish) == (7, "length")
    assert result.prompt_tokens == len(model.encode("Who is the author of Misery?"))


def middle(text):
    return text[len(text) // 2 :][:3]


def test_a_stop_may_straddle_tokens_and_the_earliest_wins(model):
    text = free_text(model, PROMPTS[0])
    late, early = text[9:12], text[3:7]  # four characters begin and end inside tokens
    result = model.generate([Generate(prompt=PROMPTS[0], max_tokens=24, stop=(late, early))])[0]
    assert result.finish == "stop"
    assert result.text == text[: min(text.find(early), text.find(late))]
    assert result.tokens < 24


def test_m2_each_row_ends_at_its_own_stop_and_at_no_part_of_it(model):
    texts = [free_text(model, prompt) for prompt in PROMPTS]
    requests = [
        Generate(prompt=prompt, max_tokens=24, stop=(middle(text), "never\n\n", text[0] + "\x00"))
        for prompt, text in zip(PROMPTS, texts, strict=True)
    ]
    for text, result in zip(texts, model.generate(requests), strict=True):
        assert result.text == text[: text.find(middle(text))]
        assert result.finish == "stop"


def test_a_stop_inside_the_prompt_ends_nothing(model):
    prompt = PROMPTS[0] + "STOP"
    assert model.generate([Generate(prompt=prompt, stop=("STOP",))])[0].text == free_text(model, prompt, 64)


def test_the_text_never_holds_the_stop_even_as_the_last_token_allowed(model):
    text = free_text(model, PROMPTS[0], 8)
    result = model.generate([Generate(prompt=PROMPTS[0], max_tokens=8, stop=(text[-1],))])[0]
    assert text[-1] not in result.text
    assert result.finish == "stop"


def test_the_end_of_text_token_ends_a_row_and_is_not_in_its_text(model):
    written = model.generate([Generate(prompt=PROMPTS[0], max_tokens=24)])[0]
    row = model._runner._row(Generate(prompt=PROMPTS[0]), model.encode(PROMPTS[0]))
    for token in (50, 60):
        assert not row.written.add(token)
    assert row.written.add(0)
    assert (row.written.finish, row.written.text) == ("eos", model.decode([50, 60]))
    assert written.finish == "length"


def test_a_sampled_row_depends_on_its_seed_alone(model):
    one = Generate(prompt=PROMPTS[0], max_tokens=12, temperature=1.0, seed=5)
    others = [
        Generate(prompt=prompt, max_tokens=12, temperature=1.3, top_k=4, seed=at) for at, prompt in enumerate(PROMPTS)
    ]
    alone = model.generate([one])[0]
    assert model.generate([*others, one, Generate(prompt=PROMPTS[3])])[9] == alone
    assert model.generate([Generate(prompt=PROMPTS[0], max_tokens=12, temperature=1.0, seed=6)])[0] != alone
    assert model.generate(others)[::-1] == model.generate(others[::-1])


def test_top_one_sampling_is_greedy(model):
    sampled = Generate(prompt=PROMPTS[0], max_tokens=12, temperature=2.0, top_k=1, seed=1)
    assert model.generate([sampled])[0].text == free_text(model, PROMPTS[0], 12)


def test_equal_requests_run_once(monkeypatch, model):
    rows = []
    original = Forward.prefill

    def counted(self, prefix, given, **more):
        rows.append(len(given))
        return original(self, prefix, given, **more)

    free_text(model, PROMPTS[0])
    monkeypatch.setattr(Forward, "prefill", counted)
    # A greedy one has no use for its seed.
    results = model.generate([Generate(prompt=PROMPTS[0], max_tokens=4, seed=seed) for seed in range(5)])
    assert sum(rows) == 1
    assert results == results[:1] * 5


@pytest.mark.parametrize("error", [RuntimeError("DefaultCPUAllocator: can't allocate memory"),
                                   torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])  # fmt: skip
def test_out_of_memory_halves_the_batch_and_loses_nothing(monkeypatch, error):
    requests = [Generate(prompt=prompt, max_tokens=4 + 3 * (at % 3)) for at, prompt in enumerate(PROMPTS)]
    whole = tiny_model("llama").generate(requests)
    model = tiny_model("llama")
    model.generate(requests[:2])  # the ways are tried out
    original = Forward.step

    def cramped(self, state, tokens):
        if len(tokens) > 3:
            raise error
        return original(self, state, tokens)

    monkeypatch.setattr(Forward, "step", cramped)
    assert model.generate(requests) == whole
    assert model.batch_size <= 3


def test_a_row_that_does_not_fit_alone_fails_alone(monkeypatch):
    model = tiny_model("llama")
    model.generate([Generate(prompt="a", max_tokens=2)])
    original = Forward.prefill

    def cramped(self, prefix, rows, keep=1):
        if max(map(len, rows)) > 60:
            raise MemoryError
        return original(self, prefix, rows, keep)

    monkeypatch.setattr(Forward, "prefill", cramped)
    good, bad = model.generate([Generate(prompt="a", max_tokens=2), Generate(prompt="b" * 100, max_tokens=2)])
    assert good.tokens == 2
    assert isinstance(bad, ModelUnavailable)
    assert "out of memory" in str(bad)


def test_another_error_is_not_taken_for_lack_of_memory(monkeypatch, model):
    model.generate([Generate(prompt="a")])  # the way of running it is chosen: an error now is no reason for another
    monkeypatch.setattr(Forward, "step", lambda *_: (_ for _ in ()).throw(RuntimeError("shapes differ")))
    with pytest.raises(RuntimeError, match="shapes differ"):
        model.generate([Generate(prompt="a")])


def test_a_prompt_too_long_is_returned_as_such_and_not_cut(model):
    long = Generate(prompt="capital " * 1100, max_tokens=10)
    fits = Generate(prompt="a", max_tokens=4)
    first, second = model.generate([long, fits])
    assert isinstance(first, ContextOverflow)
    assert "exceed the model's context of 1024" in str(first)
    assert second.tokens == 4
    assert isinstance(model.score([Score(prompt=long.prompt, continuations=("a",))])[0], ContextOverflow)


def test_the_guess_of_the_batch_is_bounded_and_remembers_failure():
    size = BatchSize(torch.device("cpu"))
    assert size.rows(1) == 64
    assert size.rows(2**60) == 1
    size.failed(40)
    assert size.rows(1) == 20


def test_nothing_asked_is_nothing_done(model):
    assert model.generate([]) == []
    assert model.score([]) == []
