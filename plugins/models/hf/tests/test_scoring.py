"""Log-probabilities are those of a whole forward pass over prompt and continuation."""

from weakref import ref

import pytest
import torch

from ke_core.plugin import Generate, ModelUnavailable, Score
from ke_plugin_hf.decoding import memory
from ke_plugin_hf.decoding.forward import Forward
from ke_plugin_hf.decoding.scoring import ScoringRow, windows
from ke_plugin_hf.testing import FAMILIES, tiny_model

HEAD = "Question: What is the capital of Italy? Answer: Rome.\n" * 8


def reference(model, prompt, continuation):
    """Return log-probability, token count, and how many tokens are the arg max given the text before them."""
    after = model.tokenizer(continuation, add_special_tokens=False)["input_ids"]
    return plain(model, model.encode(prompt), after)


def plain(model, ids, after):
    with torch.no_grad():
        logits = model.module(torch.tensor([[*ids, *after]], dtype=torch.int64)).logits[0].float()
    logprobs, best = torch.log_softmax(logits, -1), logits.argmax(-1).tolist()
    places = [(len(ids) - 1 + at, token) for at, token in enumerate(after)]
    value = sum(float(logprobs[at, token]) for at, token in places)
    return value, len(after), sum(best[at] == token for at, token in places)


def greedy_text(model, prompt):
    """The most probable token after ``prompt`` as text that its tokenizer reads back as that token; None without."""
    with torch.no_grad():
        best = int(model.module(torch.tensor([model.encode(prompt)])).logits[0, -1].argmax())
    text = model.tokenizer.decode([best])
    return text if model.tokenizer(text, add_special_tokens=False)["input_ids"] == [best] else None


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_equal_a_whole_forward_pass(family, bos):
    model = tiny_model(family, bos=bos)
    requests = [
        Score(prompt=HEAD + "The capital of France is", continuations=(" Paris", " the city of Rome", " Paris")),
        Score(prompt=HEAD + "The mother tongue of Danielle Darrieux is", continuations=(" French",)),
        Score(prompt="Apple", continuations=(" was created in the United States", "")),
    ]
    for request, scored in zip(requests, model.score(requests), strict=True):
        wanted = [reference(model, request.prompt, text) for text in request.continuations]
        assert scored.logprobs == pytest.approx([value for value, _n, _matches in wanted], abs=1e-4)
        assert scored.tokens == tuple(n for _value, n, _greedy in wanted)
        assert scored.matches == tuple(matches for _value, _n, matches in wanted)
        assert scored.is_greedy == tuple(matches == n for _value, n, matches in wanted)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_matches_are_correct_in_padded_batches_and_after_shared_prefixes(family):
    model = tiny_model(family)
    prompts = [*(HEAD + "The capital of " + "x" * n for n in range(12)), "Apple", "a b c d e f g h"]
    requests = [
        Score(prompt=prompt, continuations=(best, f"{best} and more", " Paris"))
        for prompt in prompts
        if (best := greedy_text(model, prompt)) is not None
    ]
    assert len(requests) > 4
    for request, scored in zip(requests, model.score(requests), strict=True):
        assert scored.matches == tuple(reference(model, request.prompt, text)[2] for text in request.continuations)
    found = [greedy for scored in model.score(requests) for greedy in scored.is_greedy]
    assert True in found
    assert False in found


@pytest.mark.parametrize("bos", [False, True])
def test_each_continuation_can_have_its_own_prompt(bos):
    model = tiny_model("llama", bos=bos)
    prompts = (HEAD + "The trophy, because the trophy", HEAD + "The trophy, because the suitcase", "It")
    (scored,) = model.score([Score(prompts=prompts, continuations=(" is too big",) * 3)])
    wanted = [reference(model, prompt, " is too big") for prompt in prompts]
    assert scored.logprobs == pytest.approx([value for value, _n, _matches in wanted], abs=1e-4)
    assert len(set(scored.logprobs)) == 3
    assert scored.tokens == tuple(n for _value, n, _greedy in wanted)


def rolling(model, text, context):
    """Each token given the tokens before it, in windows of lm-evaluation-harness: the sum, and the number of tokens."""
    tokens = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    before = [
        model.tokenizer.bos_token_id if model.tokenizer.bos_token_id is not None else model.tokenizer.eos_token_id
    ]
    parts = [plain(model, before, tokens[:context])]
    done = context
    while done < len(tokens):
        end = min(done + context, len(tokens))
        fed = tokens[end - context - 1 : end]
        parts.append(plain(model, fed[: len(fed) - (end - done)], tokens[done:end]))
        done = end
    return sum(value for value, _n, _matches in parts), len(tokens)


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_whole_text_is_scored_from_its_first_token_on(family, bos):
    model = tiny_model(family, bos=bos)
    texts = (HEAD, "Apple", "Two lines.\nThe second one.\n")
    (scored, *_others) = model.score([Score(continuations=texts), Score(prompt=HEAD, continuations=(" Paris",))])
    wanted = [rolling(model, text, 1024) for text in texts]
    assert scored.logprobs == pytest.approx([value for value, _n in wanted], abs=1e-3)
    assert scored.tokens == tuple(n for _value, n in wanted)


@pytest.mark.parametrize("length", [16, 40, 63])
def test_a_text_longer_than_the_context_is_scored_in_windows(monkeypatch, length):
    model = tiny_model("llama", bos=True)
    monkeypatch.setattr(model._runner, "context", length)
    (scored,) = model.score([Score(continuations=(HEAD, "Apple"))])
    wanted = [rolling(model, text, length) for text in (HEAD, "Apple")]
    assert wanted[0][1] > 2 * length
    assert scored.logprobs == pytest.approx([value for value, _n in wanted], abs=1e-3)
    assert scored.tokens == tuple(n for _value, n in wanted)


def test_windows_score_each_token_once_and_hold_no_more_than_the_context():
    before, text = [99], list(range(23))
    for context in range(1, 30):
        rows = list(windows(before, text, context))
        assert [token for ids, count in rows for token in ids[len(ids) - count :]] == text
        assert all(len(ids) - 1 <= context and count < len(ids) for ids, count in rows)


def test_a_whole_text_is_scored_without_a_chat_template():
    plain_model = tiny_model("llama", bos=True)
    chat = type(plain_model)(id="chat", module=plain_model.module, tokenizer=plain_model.tokenizer, chat=True)
    request = [Score(continuations=(HEAD,))]
    assert chat.score(request) == plain_model.score(request)


def test_scores_do_not_depend_on_the_batch(monkeypatch):
    requests = [Score(prompt=HEAD + "x" * n, continuations=(" Paris", " Rome is a city")) for n in range(9)]
    whole = tiny_model("llama").score(requests)
    model = tiny_model("llama")
    monkeypatch.setitem(memory.CAP, "cpu", 1)
    for one, other in zip(model.score(requests), whole, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_out_of_memory_halves_the_batch_of_scores_too(monkeypatch):
    requests = [Score(prompt="Who is " + "x" * n, continuations=(" Paris",)) for n in range(9)]
    whole = tiny_model("llama").score(requests)
    model = tiny_model("llama")
    model.score(requests[:1])
    original = Forward.prefill

    def cramped(self, prefix, rows, **more):
        if len(rows) > 2:
            raise MemoryError
        return original(self, prefix, rows, **more)

    monkeypatch.setattr(Forward, "prefill", cramped)
    for one, other in zip(model.score(requests), whole, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_log_probabilities_of_half_precision_use_float32():
    model = tiny_model("llama", dtype="bfloat16")
    scored = model.score([Score(prompt="The capital of", continuations=(" France",))])[0]
    value, _count, _matches = reference(model, "The capital of", " France")
    assert scored.logprobs[0] == pytest.approx(value, abs=0.2)


def test_tensors_of_a_pass_are_freed_before_the_next(monkeypatch):
    model = tiny_model("llama")
    requests = [Score(prompt="Who is " + "x" * n, continuations=(" Paris",)) for n in range(9)]
    whole = model.score(requests)
    original, made = Forward.prefill, []

    def watched(self, prefix, rows, **more):
        assert not [one for one in made if one() is not None]
        if len(rows) > 3 and made:
            raise MemoryError
        logits, state = original(self, prefix, rows, **more)
        made.extend(ref(one) for one in (logits, state))
        return logits, state

    monkeypatch.setattr(Forward, "prefill", watched)
    monkeypatch.setitem(memory.READ, "cpu", 40)
    for one, other in zip(model.score(requests), whole, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert len(made) > 4
    made.clear()
    model.generate([Generate(prompt=f"{n} " + "x" * 9, max_tokens=1) for n in range(9)])  # reads in passes too
    assert len(made) > 4


def test_out_of_memory_in_a_sum_is_retried_or_fails_its_row(monkeypatch):
    model = tiny_model("llama")
    requests = [Score(prompt="Who is " + "x" * n, continuations=(" Paris",)) for n in range(4)]
    whole = model.score(requests)
    original, failed = ScoringRow.scores, []

    def cramped(self, logits):
        if not failed or self.ids == failed[0]:
            failed.append(self.ids)
            raise MemoryError
        return original(self, logits)

    monkeypatch.setattr(ScoringRow, "scores", cramped)
    found = model.score(requests)
    assert len(failed) > 1
    assert [type(one) for one in found].count(ModelUnavailable) == 1
    for one, other in zip(found, whole, strict=True):
        if not isinstance(one, ModelUnavailable):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
