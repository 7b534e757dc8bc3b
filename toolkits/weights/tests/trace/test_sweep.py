"""Interventions: what must hold for any model, and that the quick way gives the slow one's numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_plugin_hf.testing import Family, tiny_model
from ke_weights.hooks import Hooks, forward, frozen_module
from ke_weights.modules import ModuleMap, find_parts
from ke_weights.trace import sweep as sweeping
from ke_weights.trace.facts import TraceFact, tokens_of
from ke_weights.trace.naive import naive
from ke_weights.trace.noise import Noise
from ke_weights.trace.runs import Recording, TracePrompt, embedding_of, part_of, probability, prompt, record
from ke_weights.trace.settings import PARTS, Curve, TraceSettings
from ke_weights.trace.sweep import agrees, sweep

CURVES = TraceSettings(sever=("mlp", "attention")).curves
STATES = Curve("states")
FACT = TraceFact(id="1", prompt="The city of Ellie is", subject="Ellie", attribute="Norwich")
FIRST = TraceFact(id="2", prompt="France is the country of", subject="France", attribute="Rome")
SAMPLES, WINDOW = 2, 2


class Traced:
    """One fact of one tiny model, recorded."""

    def __init__(
        self, family: Family, *, fact: TraceFact = FACT, sigma: float = 0.4, dtype: str = "float64", **how: Any
    ):
        self.model = tiny_model(family, dtype=dtype, **how)
        self.modules: ModuleMap = find_parts(self.model.module)
        ids, subject = tokens_of(self.model.tokenizer, fact)
        noise = Noise(rule=str(sigma), sigma=sigma, uniform=False, seed=1)
        self.asked: TracePrompt = prompt(ids, subject, noise, SAMPLES, self.modules.hidden)
        self.found: Recording = record(self.modules, self.asked)
        self.length, self.layers, (self.begin, self.end) = len(ids), len(self.modules.layers), subject

    def quick(self, curve: Curve, *positions: int) -> Tensor:
        return sweep(self.modules, self.found, [curve], positions or range(self.length), WINDOW)[curve]

    def slow(self, curve: Curve, *positions: int) -> Tensor:
        return naive(self.modules, self.found, curve, positions or range(self.length), WINDOW)

    def answered(self, change: Any) -> Tensor:
        """p(answer) of the corrupted rows, with hooks set by ``change``."""
        ids = self.asked.rows(self.modules.device)
        with frozen_module(self.modules.module), Hooks() as hooks:
            hooks.change(embedding_of(self.modules), self.asked.corrupt)
            change(hooks)
            logits = forward(self.modules.module, ids, torch.ones_like(ids)).logits
        return probability(logits[1:, -1], self.found.answer, self.modules.dtype)


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def traced(request: pytest.FixtureRequest) -> Traced:
    return Traced(request.param)


def all_clean(output: Tensor) -> Tensor:
    return output[:1].expand(output.shape).clone()


def off(one: Tensor, other: Tensor | float) -> float:
    return float((one - other).abs().max())


@pytest.mark.parametrize(
    ("family", "tolerance"), [("gpt2", 1e-12), ("llama", 1e-12), ("gptneox", 1e-12), ("qwen2", 1e-12), ("gptj", 1e-7)]
)
def test_quick_equals_naive_on_every_token_and_layer(family: Family, tolerance: float) -> None:
    """Section 11, 7. GPT-J computes its rotary angles in float32 whatever the model's type."""
    for traced, positions in ((made := Traced(family), range(made.length)), (Traced(family, fact=FIRST), (0, 1))):
        tables = sweep(traced.modules, traced.found, CURVES, positions, WINDOW)
        for curve in CURVES:
            slow = traced.slow(curve, *positions)
            assert off(tables[curve], slow) < tolerance
            assert off(slow, traced.found.low) > 1e-4  # the interventions do something


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_quick_equals_naive_in_float32(family: Family) -> None:
    traced = Traced(family, dtype="float32", bos=True)
    for curve in CURVES:
        assert off(traced.quick(curve), traced.slow(curve)) < 2e-6


def test_batches_of_few_interventions_give_the_same(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {curve: traced.quick(curve) for curve in CURVES}
    monkeypatch.setattr(sweeping, "PASS_TOKENS", SAMPLES * 8)
    for curve in CURVES:
        assert off(traced.quick(curve), whole[curve]) < 1e-14


def test_a_model_that_cannot_go_on_from_kept_keys_runs_whole_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from ke_weights.trace import runs

    monkeypatch.setattr(runs, "keeps_keys", lambda _modules: False)
    traced = Traced("llama")
    assert traced.found.cache is None
    for curve in CURVES:
        assert off(traced.quick(curve), traced.slow(curve)) < 1e-12


def test_without_noise_every_entry_is_the_high_score(traced: Traced) -> None:
    """1."""
    still = Traced("gpt2" if traced.model.id.startswith("tiny:gpt2") else "llama", sigma=0.0)
    assert still.found.low == pytest.approx(still.found.high, abs=1e-15)
    for curve in CURVES:
        assert off(still.slow(curve), still.found.high) < 1e-15
        assert off(still.quick(curve), still.found.high) < 1e-12


def test_restoring_the_last_state_of_the_last_token_gives_the_high_score(traced: Traced) -> None:
    """2."""
    for table in (traced.slow(STATES, traced.length - 1), traced.quick(STATES, traced.length - 1)):
        assert float(table[0, -1]) == pytest.approx(traced.found.high, abs=1e-15)


def test_restoring_a_token_before_the_subject_changes_nothing(traced: Traced) -> None:
    """3."""
    before = range(traced.begin)
    assert before
    for curve in CURVES:
        if not curve.severed:
            assert off(traced.slow(curve, *before), traced.found.low) < 1e-15
        assert off(traced.quick(curve, *before), traced.found.low) == 0.0


def test_restoring_the_last_layer_before_the_last_token_changes_nothing(traced: Traced) -> None:
    """4."""
    for table in (traced.slow(STATES), traced.quick(STATES)):
        assert off(table[:-1, -1], traced.found.low) < 1e-15


def test_restoring_all_tokens_at_the_first_block_gives_the_high_score(traced: Traced) -> None:
    """5."""
    found = traced.answered(lambda hooks: hooks.change(traced.modules.layers[0].block, all_clean))
    assert off(found, traced.found.high) < 1e-15


def test_noise_is_drawn_anew_so_that_twice_gives_the_same(traced: Traced) -> None:
    """6. The noise to the bit; products of matrices, on some processors, to the last bit but one."""
    again = Traced("gpt2" if traced.model.id.startswith("tiny:gpt2") else "llama")
    assert torch.equal(again.asked.noise, traced.asked.noise)
    assert (again.found.low, again.found.high) == pytest.approx((traced.found.low, traced.found.high), abs=1e-15)
    for curve in CURVES:
        assert off(traced.quick(curve), again.quick(curve)) < 1e-15


def test_restoring_embeddings_and_all_outputs_gives_the_high_score(traced: Traced) -> None:
    """8."""

    def everything(hooks: Hooks) -> None:
        hooks.change(embedding_of(traced.modules), all_clean)
        for layer in traced.modules.layers:
            for part in PARTS:
                hooks.change(part_of(layer, part), all_clean)

    assert off(traced.answered(everything), traced.found.high) < 1e-15


def test_severed_at_the_last_layer_equals_the_ordinary_trace(traced: Traced) -> None:
    """9: no module is left above it."""
    for part in PARTS:
        severed = Curve("states", part)
        assert off(traced.slow(severed)[:, -1], traced.slow(STATES)[:, -1]) < 1e-15
        assert off(traced.quick(severed)[:, -1], traced.quick(STATES)[:, -1]) == 0.0


def test_severed_curve_needs_the_same_noise_in_both_passes(traced: Traced) -> None:
    """At the last layer its effect is 0. With outputs of other noise, as in the released code, it is larger."""
    noise = Noise(rule="0.4", sigma=0.4, uniform=False, seed=2)
    subject, severed = traced.end - 1, Curve("states", "mlp")
    other = record(
        traced.modules, prompt(traced.asked.ids, (traced.begin, traced.end), noise, SAMPLES, traced.modules.hidden)
    )
    mixed = naive(traced.modules, evolve(traced.found, outputs=other.outputs), severed, [subject], WINDOW)
    assert off(traced.slow(severed, subject)[0, -1], traced.found.low) < 1e-15
    assert off(mixed[0, -1], traced.found.low) > 1e-5


def test_severing_cuts_a_part_of_the_effect_below(traced: Traced) -> None:
    assert off(traced.quick(Curve("states", "mlp"))[traced.end - 1], traced.quick(STATES)[traced.end - 1]) > 1e-4


def test_only_the_subject_is_corrupted_and_the_first_row_stays_clean(traced: Traced) -> None:
    states = traced.found.entering[0]
    changed = (states[1:] - states[:1]).abs().amax(dim=(0, 2)) > 0
    assert changed.nonzero().flatten().tolist() == list(range(traced.begin, traced.end))


def test_windows_are_centred_and_narrower_at_the_borders() -> None:
    curve = Curve("mlp")
    assert list(curve.window(20, 48, 10)) == list(range(15, 25))
    assert list(curve.window(2, 48, 10)) == list(range(7))
    assert list(curve.window(47, 48, 10)) == list(range(42, 48))
    assert list(curve.window(5, 8, 3)) == [4, 5, 6]
    assert list(curve.window(5, 8, 1)) == [5]


def test_a_model_whose_logits_are_scaled_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced("llama")
    assert agrees(traced.modules, traced.found, CURVES, WINDOW)
    real = ModuleMap.logits
    monkeypatch.setattr(ModuleMap, "logits", lambda self, states: real(self, states) * 0.5)
    assert not agrees(traced.modules, traced.found, CURVES, WINDOW)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("cap", [4.0, 30.0, 200.0])
def test_a_model_that_caps_its_logits_is_told_apart_in_every_type(cap: float, dtype: str) -> None:
    """200 leaves logits of 4 as they are, but for rounding."""
    traced = Traced("gemma2", dtype=dtype)
    traced.model.module.config.final_logit_softcapping = cap
    found = record(traced.modules, traced.asked)
    assert not agrees(traced.modules, found, CURVES, WINDOW)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("family", ["gpt2", "gptneox", "llama", "qwen2", "olmo2"])
def test_a_model_that_reads_its_states_is_traced_the_quick_way(family: Family, dtype: str) -> None:
    traced = Traced(family, dtype=dtype)
    assert agrees(traced.modules, traced.found, CURVES, WINDOW)


def test_tracing_leaves_the_model_as_it_was(snapshot: Any) -> None:
    model = tiny_model("gpt2")
    before = snapshot(model.module)
    Traced("gpt2")
    modules = find_parts(model.module)
    ids, subject = tokens_of(model.tokenizer, FACT)
    noise = Noise(rule="1", sigma=1.0, uniform=False, seed=1)
    found = record(modules, prompt(ids, subject, noise, SAMPLES, modules.hidden))
    sweep(modules, found, CURVES, [subject[1] - 1], WINDOW)
    naive(modules, found, STATES, [subject[1] - 1], WINDOW)
    assert snapshot(model.module) == before
