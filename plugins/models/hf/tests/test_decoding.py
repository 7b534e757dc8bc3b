"""Results do not depend on the batch, and texts end where they should."""

import pytest
import torch

from ke_core.plugin import ContextOverflow, Generate, ModelUnavailable, Score
from ke_plugin_hf.decoding import inner, memory
from ke_plugin_hf.decoding.forward import NO_PREFIX, Forward
from ke_plugin_hf.decoding.memory import RowBatchSize
from ke_plugin_hf.decoding.sampling import Sampler
from ke_plugin_hf.testing import tiny_model

HEAD = "Question: What is the capital of Italy? Answer: Rome.\n" * 6
PROMPTS = [HEAD + "Who is " + "the author of " * n + "Misery?" for n in range(9)]


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama")


def free_text(model, prompt, tokens=24):
    return model.generate([Generate(prompt=prompt, max_tokens=tokens)])[0].text


@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("family", ["llama", "gptj"])
def test_the_same_text_whatever_the_batch(monkeypatch, family, size):
    prompts = [*PROMPTS, "", "alone", *PROMPTS[:2]]
    alone = [free_text(tiny_model(family), prompt) for prompt in prompts[:4]]
    model = tiny_model(family)
    requests = [Generate(prompt=prompt, max_tokens=8 + 4 * (at % 5)) for at, prompt in enumerate(prompts)]
    whole = tiny_model(family).generate(requests)
    monkeypatch.setitem(memory.CAP, "cpu", size)
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


@pytest.mark.parametrize("size", [2, 16])
def test_progress_counts_finished_requests_while_tokens_are_decoded(monkeypatch, model, size):
    monkeypatch.setitem(memory.CAP, "cpu", size)
    seen = []
    monkeypatch.setattr(model, "on_progress", seen.append)
    model.generate([Generate(prompt=prompt, max_tokens=12) for prompt in PROMPTS])
    assert (seen[0], seen[-1]) == (0, len(PROMPTS))
    assert seen == sorted(seen)
    assert len(seen) >= 12, "at least one report for each token"


def test_progress_counts_scored_requests(monkeypatch, model):
    seen = []
    monkeypatch.setattr(model, "on_progress", seen.append)
    model.score([Score(prompt=prompt, continuations=(" King",)) for prompt in PROMPTS])
    assert seen[-1] == len(PROMPTS)
    assert seen == sorted(seen)


def test_padding_does_not_change_texts(model):
    short, long = "Who?", "Question: " + "the author of " * 30
    assert model.generate([Generate(prompt=short), Generate(prompt=long)])[0].text == free_text(model, short, 64)


def test_limits_count_tokens(model):
    result = model.generate([Generate(prompt="Who is the author of Misery?", max_tokens=7)])[0]
    assert (result.tokens, result.finish) == (7, "length")
    assert result.prompt_tokens == len(model.encode("Who is the author of Misery?"))


def middle(text):
    return text[len(text) // 2 :][:3]


def test_stop_strings_can_span_tokens_and_the_earliest_wins(model):
    text = free_text(model, PROMPTS[0])
    late, early = text[9:12], text[3:7]  # four characters begin and end inside tokens
    result = model.generate([Generate(prompt=PROMPTS[0], max_tokens=24, stop=(late, early))])[0]
    assert result.finish == "stop"
    assert result.text == text[: min(text.find(early), text.find(late))]
    assert result.tokens < 24


def test_each_row_ends_at_its_complete_stop_string(model):
    texts = [free_text(model, prompt) for prompt in PROMPTS]
    requests = [
        Generate(prompt=prompt, max_tokens=24, stop=(middle(text), "never\n\n", text[0] + "\x00"))
        for prompt, text in zip(PROMPTS, texts, strict=True)
    ]
    for text, result in zip(texts, model.generate(requests), strict=True):
        assert result.text == text[: text.find(middle(text))]
        assert result.finish == "stop"


def test_a_stop_string_in_the_prompt_has_no_effect(model):
    prompt = PROMPTS[0] + "STOP"
    assert model.generate([Generate(prompt=prompt, stop=("STOP",))])[0].text == free_text(model, prompt, 64)


def test_the_text_never_contains_the_stop_string(model):
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


def test_a_sampled_row_depends_only_on_its_seed(model):
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


def mixed(count=9):
    """Greedy and sampled requests that end at different lengths."""
    return [
        Generate(prompt=PROMPTS[at], max_tokens=4 + 3 * (at % 3), temperature=float(at % 2), seed=at)
        for at in range(count)
    ]


@pytest.mark.parametrize("error", [RuntimeError("DefaultCPUAllocator: can't allocate memory"),
                                   torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])  # fmt: skip
def test_out_of_memory_halves_the_batch(monkeypatch, error):
    whole = tiny_model("llama").generate(mixed())
    model = tiny_model("llama")
    model.generate(mixed(2))  # the ways are tried out
    original = Forward.step

    def cramped(self, state, tokens):
        if len(tokens) > 3:
            raise error
        return original(self, state, tokens)

    monkeypatch.setattr(Forward, "step", cramped)
    assert model.generate(mixed()) == whole
    assert model.batch_size <= 3


@pytest.mark.parametrize("family", ["llama", "gptj"])
def test_out_of_memory_while_decoding_repeats_no_token(monkeypatch, family):
    requests = [Generate(prompt=prompt, max_tokens=12) for prompt in PROMPTS]
    whole = tiny_model(family).generate(requests)
    model = tiny_model(family)
    model.generate(requests)
    step, prefill, fed, failed = Forward.step, Forward.prefill, [], []

    def cramped(self, state, tokens):
        if len(tokens) > 5 and int(state.positions.max()) > len(model.encode(PROMPTS[-1])) + 6:
            failed.append(len(tokens))
            raise MemoryError
        return step(self, state, tokens)

    def seen(self, prefix, rows, **more):
        fed.extend(rows)
        return prefill(self, prefix, rows, **more)

    monkeypatch.setattr(Forward, "step", cramped)
    monkeypatch.setattr(Forward, "prefill", seen)
    monkeypatch.setitem(inner.PASS, "cpu", 10**9)  # each row is read in one piece
    assert model.generate(requests) == whole
    again = [row for row in fed if row[:-8] in fed]  # read with what each had written by then
    assert [len(again)] == failed
    assert len(fed) == len(PROMPTS) + len(again)


def test_out_of_memory_while_sampling_keeps_random_states(monkeypatch):
    whole = tiny_model("llama").generate(mixed())
    model = tiny_model("llama")
    model.generate(mixed(2))
    draw, drawn = Sampler.draw, []

    def cramped(self, logits):
        drawn.append(self)
        if len(drawn) in {7, 12}:
            raise MemoryError
        return draw(self, logits)

    monkeypatch.setattr(Sampler, "draw", cramped)
    assert model.generate(mixed()) == whole


def test_a_long_prompt_does_not_delay_the_others(monkeypatch):
    model = tiny_model("llama")
    short = [Generate(prompt=f"Question {at}: who is it?", max_tokens=4) for at in range(200)]
    long = Generate(prompt="Question 7: who is it " + "and " * 400, max_tokens=4)
    monkeypatch.setattr(memory, "free_bytes", lambda _device: 50 * 2**20)
    together = []
    original = Forward.step

    def counted(self, state, tokens):
        together.append(len(tokens))
        return original(self, state, tokens)

    monkeypatch.setattr(Forward, "step", counted)
    model.generate(short)
    alone, together[:] = len(together), []
    model.generate([*short, long])
    assert max(together) == memory.CAP["cpu"]
    assert len(together) <= alone + 3  # the long one's own steps
    assert together[0] < memory.CAP["cpu"]


def test_the_memory_budget_is_fixed_per_call(monkeypatch, model):
    asked = []

    def less_and_less(_device):
        asked.append(0)
        return 2**30 // len(asked)

    monkeypatch.setattr(memory, "free_bytes", less_and_less)
    model.generate([Generate(prompt=prompt, max_tokens=8) for prompt in PROMPTS])
    model.score([Score(prompt=prompt, continuations=(" King",)) for prompt in PROMPTS])
    assert len(asked) == 2


def test_a_row_that_never_fits_fails_without_the_others(monkeypatch):
    model = tiny_model("llama")
    model.generate([Generate(prompt="a", max_tokens=2)])
    original = Forward.prefill

    def cramped(self, prefix, rows, **more):
        if max(map(len, rows)) > 60:
            raise MemoryError
        return original(self, prefix, rows, **more)

    monkeypatch.setattr(Forward, "prefill", cramped)
    good, bad = model.generate([Generate(prompt="a", max_tokens=2), Generate(prompt="b" * 100, max_tokens=2)])
    assert good.tokens == 2
    assert isinstance(bad, ModelUnavailable)
    assert "out of memory" in str(bad)


def test_other_errors_are_not_treated_as_out_of_memory(monkeypatch, model):
    model.generate([Generate(prompt="a")])  # the way of running it is chosen: an error now is no reason for another
    monkeypatch.setattr(Forward, "step", lambda *_: (_ for _ in ()).throw(RuntimeError("shapes differ")))
    with pytest.raises(RuntimeError, match="shapes differ"):
        model.generate([Generate(prompt="a")])


def test_an_overlong_prompt_is_an_error_and_not_cut(model):
    long = Generate(prompt="capital " * 1100, max_tokens=10)
    fits = Generate(prompt="a", max_tokens=4)
    first, second = model.generate([long, fits])
    assert isinstance(first, ContextOverflow)
    assert "exceeds the model's context of 1024" in str(first)
    assert second.tokens == 4
    assert isinstance(model.score([Score(prompt=long.prompt, continuations=("a",))])[0], ContextOverflow)


def sized(free):
    size = RowBatchSize(torch.device("cpu"))
    size._free = free
    return size


def test_a_batch_is_bounded_by_rows_and_bytes():
    assert sized(10**9).fit([1] * 200) == 128
    assert sized(100).fit([10] * 20) == 10
    assert sized(100).fit([50, 10, 10]) == 2
    assert sized(100).fit([10, 10, 50]) == 2
    assert sized(100).fit([500, 1]) == 1
    assert sized(100).fit([10] * 20, [20, 10]) == 3
    assert sized(100).fit([10] * 20, [200]) == 0


def test_the_size_of_a_failed_batch_is_remembered():
    size = sized(1000)
    size.failed([100] * 4)
    assert size.fit([100] * 9) == 2
    assert size.fit([1] * 200) == 128
    size.failed([900])  # more than half of it is known to fail already
    assert size.fit([100] * 9) == 2


def test_the_size_of_a_failed_batch_is_forgotten_once_more_memory_is_free(monkeypatch):
    size = sized(1000)
    monkeypatch.setattr(memory, "free_bytes", lambda _device: 10_000)
    size.failed([100] * 4)
    size.begin()
    assert size.fit([100] * 9) == 2
    monkeypatch.setattr(memory, "free_bytes", lambda _device: 30_000)
    size.begin()
    assert size.fit([100] * 9) == 9


def test_a_padding_token_in_a_prompt_is_read(model):
    """Chat templates end turns with the padding token, so masks must not depend on its id."""
    end = model.tokenizer.eos_token
    assert model.tokenizer.pad_token_id == model.tokenizer.eos_token_id
    prompts = [f"{end}Who is it?{end}Tim Cook.{end}" + "And who else?" * n for n in range(3)]
    assert all(model.encode(prompt).count(model.tokenizer.eos_token_id) == 3 for prompt in prompts)
    for mode, prefix in (("shared", 8), ("copied", 8), ("plain", 0)):
        forward = Forward(model.module, mode)
        ids = [model.encode(prompt) for prompt in prompts]
        head = forward.prefix(ids[0][:prefix]) if prefix else NO_PREFIX
        logits, _state = forward.prefill(head, [row[prefix:] for row in ids])
        for row, found in zip(ids, logits[:, -1], strict=True):
            with torch.no_grad():
                whole = model.module(input_ids=torch.tensor([row])).logits[0, -1]
                gone = model.module(input_ids=torch.tensor([[one for one in row if one]])).logits[0, -1]
            torch.testing.assert_close(found, whole, atol=1e-4, rtol=0)
            assert float((found - gone).abs().max()) > 0.1
    requests = [Generate(prompt=prompt, max_tokens=8) for prompt in prompts]
    assert model.generate(requests) == [model.generate([request])[0] for request in requests]


def test_an_empty_list_of_requests_is_answered(model):
    assert model.generate([]) == []
    assert model.score([]) == []
