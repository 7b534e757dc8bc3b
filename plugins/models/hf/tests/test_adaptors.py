"""Adaptors: arguments of the forward function, digest, and removal."""

from contextlib import contextmanager, suppress

import pytest
import torch
from attrs import evolve

from ke_core.plugin import EditFailed, Generate, Score
from ke_plugin_hf.decoding import memory
from ke_plugin_hf.kept_rows import kept_of
from ke_plugin_hf.layer_calls import prompt_lengths
from ke_plugin_hf.testing import tiny_model
from ke_testing.interrupts import Interrupter, ctrl_c, first_and_last, points_of
from ke_testing.kit import unchanged

LAYER = {
    "llama": "model.layers.1.mlp.down_proj",
    "gpt2": "transformer.h.1.mlp.c_proj",
    "opt": "model.decoder.layers.1.fc2",
}
BLOCK = "model.layers.1"
LONG = "The capital of France is Paris. The capital of Italy is Rome, and that of Japan is Tokyo. The capital of"
PROMPTS = ["Who is", f"{LONG} Peru is", "Steve Jobs is affiliated with the religion of", f"{LONG} Chile is"]
SEEN = []
MARK = {"mark": torch.zeros(1, dtype=torch.float32)}


def at_last_prompt(call, state):
    """Add a vector to the last prompt token of each row."""
    here = torch.zeros_like(call.prompt)
    rows = torch.arange(len(here))[call.last_prompt >= 0]
    here[rows, call.last_prompt[call.last_prompt >= 0]] = True
    return torch.where(here[..., None], call.output + state["vector"].to(call.output.dtype), call.output)


def by_role(call, state):
    """Add one vector to prompts, another to answers, and noise to padding."""
    moved = call.output + torch.where(call.prompt[..., None], state["vector"], -state["vector"])
    return torch.where(call.padding[..., None], call.output * 100 + 7, moved)


def nothing(call, state):
    return call.output


def record(call, state):
    SEEN.append(call)
    return call.output


def by_first_call(call, state):
    """Decide at the prompt, by the parity of its length, whether to move a row; keep the decision while decoding."""
    moved = call.prompt.sum(1) % 2 == 0 if call.kept is None else call.kept
    output = torch.where(moved[:, None, None], call.output + state["vector"], call.output)
    return (output, moved) if call.kept is None else output


def by_parity(call, state):
    """Decide at the prompt, by the parity of its length, and change nothing."""
    return (call.output, call.prompt.sum(1) % 2 == 0) if call.kept is None else call.output


def in_routed_rows(call, state):
    """Add a vector to the rows that the router selected."""
    return torch.where(call.routed[:, None, None], call.output + state["vector"], call.output)


def wrong_shape(call, state):
    return call.output[:, :1]


def vector(size=64, seed=1, scale=3.0):
    return {"vector": torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float32) * scale}


def asked(tokens=12):
    return [Generate(prompt=prompt, max_tokens=tokens) for prompt in PROMPTS]


def scored():
    return [Score(prompt=prompt, continuations=(" Rome", " Paris and Rome", " a")) for prompt in PROMPTS]


@pytest.mark.parametrize("forward", [at_last_prompt, by_role, by_first_call])
@pytest.mark.parametrize("family", ["llama", "gpt2", "opt"])
def test_batch_equals_single_rows(family, forward):
    model, alone = tiny_model(family), tiny_model(family)
    with model.adapt(LAYER[family], forward, vector()), alone.adapt(LAYER[family], forward, vector()):
        texts = [one.text for one in model.generate(asked())]
        assert texts == [alone.generate([one])[0].text for one in asked()]
        together = [one.logprobs for one in model.score(scored())]
        single = [alone.score([one])[0].logprobs for one in scored()]
    torch.testing.assert_close(torch.tensor(together), torch.tensor(single), rtol=1e-4, atol=1e-4)
    assert texts != [one.text for one in tiny_model(family).generate(asked())]


@pytest.mark.parametrize("forward", [at_last_prompt, by_role, by_first_call])
@pytest.mark.parametrize("prompt", PROMPTS[1:3])
def test_cached_decoding_equals_whole_passes(forward, prompt):
    model = tiny_model()
    with model.adapt(LAYER["llama"], forward, vector()):
        (found,) = model.generate([Generate(prompt=prompt, max_tokens=6)])
        ids = model.encode(prompt)
        length = len(ids)
        for _ in range(6):
            with torch.no_grad(), prompt_lengths([length]):
                logits = model.module(input_ids=torch.tensor([ids]), use_cache=False).logits
            ids.append(int(logits[0, -1].argmax()))
    assert model.decode(ids[length:]) == found.text


def test_a_likelihood_counts_the_continuation_as_answer():
    """The same text, split at two places, has two last prompt tokens."""
    model = tiny_model()
    with model.adapt(LAYER["llama"], at_last_prompt, vector()):
        short, long = model.score([
            Score(prompt="The capital of", continuations=(" France is Paris",)),
            Score(prompt="The capital of France is", continuations=(" Paris",)),
        ])  # fmt: skip
        again = model.score([Score(prompt="The capital of", continuations=(" France is Paris",))])[0]
    assert short.logprobs == pytest.approx(again.logprobs, rel=1e-5)
    base = model.score([Score(prompt="The capital of France is", continuations=(" Paris",))])[0]
    assert long.logprobs != base.logprobs


def test_each_position_has_one_role_and_each_row_one_last_prompt_token():
    SEEN.clear()
    model = tiny_model()
    model.generate(asked(1))  # tries how the model can be run
    with model.adapt(LAYER["llama"], record, MARK):
        model.generate(asked(3))
    first, *later = SEEN
    lengths = sorted((len(model.encode(prompt)) for prompt in PROMPTS), reverse=True)
    assert first.prompt.sum(1).tolist() == lengths
    assert first.padding.sum(1).tolist() == [lengths[0] - length for length in lengths]
    assert first.last_prompt.tolist() == [lengths[0] - 1] * len(PROMPTS)
    assert len(later) == 2
    for call in SEEN:
        assert bool((call.padding.int() + call.prompt.int() + call.answer.int() == 1).all())
    for call in later:
        assert bool(call.answer.all())
        assert call.last_prompt.tolist() == [-1] * len(call.answer)


def test_right_padding_is_recognized_in_a_call_of_the_module():
    SEEN.clear()
    model = tiny_model()
    ids, mask = torch.ones((2, 5), dtype=torch.int64), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    with model.adapt(LAYER["llama"], record, MARK), prompt_lengths([2, 3]):
        model.module(input_ids=ids, attention_mask=mask)
    (call,) = SEEN
    assert call.last_prompt.tolist() == [1, 2]
    assert call.answer.tolist() == [[False, False, True, True, True], [False] * 5]
    assert call.padding.tolist() == [[False] * 5, [False, False, False, True, True]]


def test_transformers_own_loop_reads_the_prompt_once():
    SEEN.clear()
    model = tiny_model()
    ids = torch.tensor([model.encode(PROMPTS[0])])
    with model.adapt(BLOCK, record, MARK):
        model.module.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, pad_token_id=0)
    first, *later = SEEN
    assert first.last_prompt.tolist() == [ids.shape[1] - 1]
    assert all(call.last_prompt.tolist() == [-1] and bool(call.answer.all()) for call in later)


def test_kept_values_follow_their_rows(monkeypatch):
    """More prompts than fit at once: rows leave the batch and others join it."""
    model, alone = tiny_model(), tiny_model()
    asked = [Generate(prompt=prompt[at:], max_tokens=2 + 3 * at) for prompt in PROMPTS for at in range(4)]
    monkeypatch.setitem(memory.CAP, "cpu", 6)
    with model.adapt(LAYER["llama"], by_first_call, vector()), alone.adapt(LAYER["llama"], by_first_call, vector()):
        assert [one.text for one in model.generate(asked)] == [alone.generate([one])[0].text for one in asked]


ROUTER = "model.layers.0.mlp.down_proj"


@contextmanager
def routed(model):
    """Route at layer 0, and change the selected rows at layer 1."""
    with (
        model.adapt(ROUTER, by_parity, MARK) as router,
        model.adapt(LAYER["llama"], in_routed_rows, vector(), router=router),
    ):
        yield


def test_a_router_decides_for_a_later_layer_in_prompts_and_in_decoding(monkeypatch):
    """The same texts as from one function that decides and acts, also when rows leave the batch and others join it."""
    model, alone, single = tiny_model(), tiny_model(), tiny_model()
    requests = [Generate(prompt=prompt[at:], max_tokens=2 + 3 * at) for prompt in PROMPTS for at in range(4)]
    monkeypatch.setitem(memory.CAP, "cpu", 6)
    with routed(model), routed(alone), single.adapt(LAYER["llama"], by_first_call, vector()):
        texts = [one.text for one in model.generate(requests)]
        assert texts == [alone.generate([one])[0].text for one in requests]
        assert texts == [one.text for one in single.generate(requests)]
        for one, other in zip(model.score(scored()), single.score(scored()), strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, rel=1e-4, abs=1e-4)
    assert texts != [one.text for one in tiny_model().generate(requests)]


def test_the_digest_covers_the_router():
    model, digests = tiny_model(), []
    with model.adapt(ROUTER, by_parity, MARK) as one, model.adapt("model.layers.0.mlp.up_proj", by_parity, MARK) as two:
        for router in (None, one, two):
            with model.adapt(LAYER["llama"], in_routed_rows, vector(), router=router):
                digests.append((model.digest, model.state()["adaptor 2 of model.layers.1.mlp.down_proj"]))
    assert len(set(digests)) == 3


def test_a_router_that_runs_later_is_an_error():
    model = tiny_model()
    with (
        model.adapt(LAYER["llama"], by_parity, MARK) as router,
        model.adapt(ROUTER, in_routed_rows, vector(), router=router),
        pytest.raises(EditFailed, match=r"layers.0.mlp.down_proj runs before its router at model.layers.1"),
    ):
        model.module(input_ids=torch.tensor([model.encode("Who is")]))


def test_rows_of_an_inactive_router_are_not_routed():
    SEEN.clear()
    model = tiny_model()
    with model.adapt(ROUTER, by_parity, {}) as router, model.adapt(LAYER["llama"], record, MARK, router=router):
        model.generate(asked(2))
        assert {call.routed for call in SEEN} == {None}
        SEEN.clear()
        router.replace_state(MARK)
        model.generate(asked(2))
    assert all(len(call.routed) == len(call.prompt) for call in SEEN)


def test_kept_values_are_attached_to_a_cache_that_the_model_creates():
    model = tiny_model()
    ids = torch.tensor([model.encode(PROMPTS[2])] * 2)
    with model.adapt(LAYER["llama"], by_first_call, vector()):
        cache = model.module(input_ids=ids, use_cache=True).past_key_values
        (kept,) = kept_of(cache).values()
        assert len(kept) == 2
        model.module(input_ids=ids[:, :1], past_key_values=cache)
        cache.batch_select_indices(torch.tensor([1]))
        with pytest.raises(EditFailed, match=r"values of 2 rows for .*down_proj, and 1 rows are read"):
            model.module(input_ids=ids[:1, :1], past_key_values=cache)


def test_a_layer_called_directly_sees_only_prompt_tokens():
    SEEN.clear()
    model = tiny_model()
    with model.adapt(LAYER["llama"], record, MARK):
        model.generate(asked(1))
        model.module.get_submodule(LAYER["llama"])(torch.zeros((2, 3, 176), dtype=torch.float32))
    assert SEEN[-1].last_prompt.tolist() == [2, 2]
    assert bool(SEEN[-1].prompt.all())


def test_within_a_pass_a_layer_called_directly_sees_the_roles_of_the_pass():
    SEEN.clear()
    model = tiny_model()
    ids, mask = torch.ones((2, 3), dtype=torch.int64), torch.tensor([[1, 1, 1], [1, 1, 0]])
    with model.adapt(LAYER["llama"], record, MARK) as adaptor:
        with prompt_lengths([1, 2]), adaptor.within_pass(ids, mask):
            model.module.get_submodule(LAYER["llama"])(torch.zeros((2, 3, 176), dtype=torch.float32))
        model.module.get_submodule(LAYER["llama"])(torch.zeros((2, 3, 176), dtype=torch.float32))
    within, after = SEEN
    assert within.last_prompt.tolist() == [0, 1]
    assert within.padding.tolist() == [[False, False, False], [False, False, True]]
    assert bool(after.prompt.all())


def test_a_row_run_separately_has_the_same_roles():
    model, alone = tiny_model(), tiny_model()
    alone._runner.backends.why = dict.fromkeys(("shared", "copied", "plain"), "tried in this test")
    with model.adapt(LAYER["llama"], by_role, vector()), alone.adapt(LAYER["llama"], by_role, vector()):
        assert [one.text for one in model.generate(asked())] == [one.text for one in alone.generate(asked())]
        for one, other in zip(model.score(scored()), alone.score(scored()), strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, rel=1e-4, abs=1e-4)


def test_texts_read_before_the_adaptor_was_opened_are_not_reused():
    model, fresh = tiny_model(), tiny_model()
    requests = [Generate(prompt=f"{LONG} {name} is", max_tokens=8) for name in ("Peru", "Chile", "Kenya")]
    before = [one.text for one in model.generate(requests)]
    with model.adapt(LAYER["llama"], by_role, vector()), fresh.adapt(LAYER["llama"], by_role, vector()):
        assert [one.text for one in model.generate(requests)] == [one.text for one in fresh.generate(requests)]
    assert [one.text for one in model.generate(requests)] == before


def test_backends_are_tested_without_adaptors():
    model = tiny_model()
    with model.adapt(LAYER["llama"], by_role, vector(scale=30.0)):
        model.generate(asked())
    assert model.backends == {"plain": ""}


def test_an_adaptor_that_does_nothing_changes_no_logit():
    model = tiny_model()
    before = model.score(scored())
    with model.adapt(LAYER["llama"], nothing, MARK):
        for one, other in zip(model.score(scored()), before, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, rel=1e-5)


def test_the_digest_names_layer_function_and_state():
    model = tiny_model()
    base, digests = model.digest, []
    for layer, forward, state in (
        (LAYER["llama"], nothing, MARK),
        (BLOCK, nothing, MARK),
        (LAYER["llama"], at_last_prompt, MARK),
        (LAYER["llama"], at_last_prompt, vector()),
        (LAYER["llama"], at_last_prompt, vector(seed=2)),
        (LAYER["llama"], at_last_prompt, {"other": vector()["vector"]}),
        (LAYER["llama"], at_last_prompt, {"vector": vector()["vector"].double()}),
    ):
        with model.adapt(layer, forward, state):
            digests.append(model.digest)
            assert model.plain.digest == tiny_model_with(layer, forward, state)
        assert model.digest == base
    assert len({base, *digests}) == len(digests) + 1


def test_an_adaptor_without_a_state_is_inactive():
    SEEN.clear()
    model = tiny_model()
    base = model.digest
    with model.adapt(BLOCK, record, {}) as adaptor:
        model.generate(asked(2))
        assert (model.digest, model.adaptors, SEEN) == (base, (), [])
        adaptor.replace_state(MARK)
        model.generate(asked(2))
        assert model.digest != base
        assert model.adaptors == (adaptor,)
        assert SEEN


def tiny_model_with(layer, forward, state):
    """Return the digest of another model with the same weights."""
    model = tiny_model()
    with model.adapt(layer, forward, state):
        return model.digest


def test_the_digest_follows_the_state():
    model, state = tiny_model(), vector()
    with model.adapt(LAYER["llama"], at_last_prompt, state) as adaptor:
        first, marks = model.digest, model.state()
        state["vector"][0] += 1  # in place
        second = model.digest
        state["vector"].data[0] += 1  # counted by nobody; `state` reads everything afresh
        assert marks != model.state()
        third = model.digest
        adaptor.replace_state(vector(seed=3))
        fourth = model.digest
    assert len({first, second, third, fourth}) == 4


def test_the_plain_model_of_a_chat_model_is_adapted_too():
    model = tiny_model()
    model.tokenizer.chat_template = "{{ messages[0]['content'] }}"
    chat = type(model)(id="chat", module=model.module, tokenizer=model.tokenizer, chat=True)
    before = chat.plain.digest
    with chat.adapt(LAYER["llama"], nothing, MARK):
        assert chat.plain.digest != before
    assert chat.plain.digest == before


def test_nested_adaptors_are_removed_one_by_one():
    model = tiny_model()
    with unchanged(model), model.adapt(LAYER["llama"], at_last_prompt, vector()):
        inner = model.digest
        with unchanged(model), suppress(ZeroDivisionError), model.adapt(BLOCK, by_role, vector(seed=4)):
            assert model.digest != inner
            raise ZeroDivisionError


def test_ctrl_c_always_removes_the_adaptor():
    model = tiny_model()
    packages = frozenset({"contextlib", "ke_core", "ke_plugin_hf"})

    def run():
        with model.adapt(LAYER["llama"], at_last_prompt, vector()) as adaptor:
            adaptor.replace_state(vector(seed=2))

    with ctrl_c():
        points = points_of(run, packages)
        for at in first_and_last(points):
            with unchanged(model):
                assert Interrupter(packages=packages, at=at).interrupts(run), points[at]


def held(call, state, *, scale=2.0):
    return call.output * scale


def test_a_function_with_captured_values_is_refused():
    model, scale = tiny_model(), 2.0
    with pytest.raises(EditFailed, match="holds scale") as caught:
        model.adapt(LAYER["llama"], lambda call, state: call.output * scale, MARK)
    assert "pass the tensors it needs in the state" in caught.value.hint
    with pytest.raises(EditFailed, match="holds scale"):
        model.adapt(LAYER["llama"], held, MARK)
    with pytest.raises(EditFailed, match="not a plain function"):
        model.adapt(LAYER["llama"], vector()["vector"].add, MARK)


@pytest.mark.parametrize(
    ("layer", "forward", "state", "why"),
    [
        ("model.layers.9", nothing, MARK, "the model has no layer 'model.layers.9'"),
        (BLOCK, nothing, {"radius": 1.0}, "the state 'radius' .* is not a tensor: float"),
        (BLOCK, wrong_shape, MARK, r"returned torch.float32 \(1, 1, 64\) for an output of torch.float32 \(1, "),
    ],
)
def test_invalid_adaptors_are_one_line_errors(layer, forward, state, why):
    model = tiny_model()
    with unchanged(model), pytest.raises(EditFailed, match=why) as caught, model.adapt(layer, forward, state):
        model.module(input_ids=torch.tensor([model.encode("Who is")]))
    assert caught.value.hint


def test_sampled_requests_do_not_depend_on_the_batch():
    model, alone = tiny_model(), tiny_model()
    requests = [evolve(one, temperature=1.0, seed=number) for number, one in enumerate(asked())]
    with model.adapt(LAYER["llama"], by_role, vector()), alone.adapt(LAYER["llama"], by_role, vector()):
        assert [one.text for one in model.generate(requests)] == [alone.generate([one])[0].text for one in requests]
