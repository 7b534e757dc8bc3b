"""Interventions: invariants of any model, and equality with the reference implementation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_plugin_hf.testing import Family, tiny_model
from ke_weights.hooks import Hooks, forward, frozen_module
from ke_weights.modules import ModuleMap, find_parts
from ke_weights.testing.reference_trace import reference_trace
from ke_weights.trace import sweep as sweeping
from ke_weights.trace.facts import TraceFact, tokens_of
from ke_weights.trace.noise import Noise
from ke_weights.trace.runs import Recording, TracePrompt, embedding_of, module_of, probability, prompt, record
from ke_weights.trace.settings import PARTS, Curve, TraceSettings
from ke_weights.trace.sweep import can_continue, sweep

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

    def swept(self, curve: Curve, *positions: int) -> Tensor:
        return sweep(self.modules, self.found, [curve], positions or range(self.length), WINDOW)[curve]

    def expected(self, curve: Curve, *positions: int) -> Tensor:
        return reference_trace(self.modules, self.found, curve, positions or range(self.length), WINDOW)

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
def test_sweep_equals_reference_on_every_token_and_layer(family: Family, tolerance: float) -> None:
    """GPT-J computes its rotary angles in float32 for every dtype."""
    for traced, positions in ((made := Traced(family), range(made.length)), (Traced(family, fact=FIRST), (0, 1))):
        tables = sweep(traced.modules, traced.found, CURVES, positions, WINDOW)
        for curve in CURVES:
            slow = traced.expected(curve, *positions)
            assert off(tables[curve], slow) < tolerance
            assert off(slow, traced.found.low) > 1e-4  # the interventions do something


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_sweep_equals_reference_in_float32(family: Family) -> None:
    traced = Traced(family, dtype="float32", bos=True)
    for curve in CURVES:
        assert off(traced.swept(curve), traced.expected(curve)) < 2e-6


def test_batch_size_does_not_change_the_numbers(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {curve: traced.swept(curve) for curve in CURVES}
    monkeypatch.setattr(sweeping, "PASS_TOKENS", SAMPLES * 8)
    for curve in CURVES:
        assert off(traced.swept(curve), whole[curve]) < 1e-14


def test_model_without_kept_keys_runs_whole_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ke_weights.trace.runs.keeps_keys", lambda _modules: False)
    traced = Traced("llama")
    assert traced.found.cache is None
    for curve in CURVES:
        assert off(traced.swept(curve), traced.expected(curve)) < 1e-12


def test_without_noise_every_probability_is_the_high_score(traced: Traced) -> None:
    still = Traced("gpt2" if traced.model.id.startswith("tiny:gpt2") else "llama", sigma=0.0)
    assert still.found.low == pytest.approx(still.found.high, abs=1e-15)
    for curve in CURVES:
        assert off(still.expected(curve), still.found.high) < 1e-15
        assert off(still.swept(curve), still.found.high) < 1e-12


def test_restoring_the_last_state_of_the_last_token_gives_the_high_score(traced: Traced) -> None:
    for table in (traced.expected(STATES, traced.length - 1), traced.swept(STATES, traced.length - 1)):
        assert float(table[0, -1]) == pytest.approx(traced.found.high, abs=1e-15)


def test_restoring_a_token_before_the_subject_changes_nothing(traced: Traced) -> None:
    before = range(traced.begin)
    assert before
    for curve in CURVES:
        if not curve.severed:
            assert off(traced.expected(curve, *before), traced.found.low) < 1e-15
        assert off(traced.swept(curve, *before), traced.found.low) == 0.0


def test_restoring_the_last_layer_before_the_last_token_changes_nothing(traced: Traced) -> None:
    for table in (traced.expected(STATES), traced.swept(STATES)):
        assert off(table[:-1, -1], traced.found.low) < 1e-15


def test_restoring_all_tokens_at_the_first_block_gives_the_high_score(traced: Traced) -> None:
    found = traced.answered(lambda hooks: hooks.change(traced.modules.layers[0].block, all_clean))
    assert off(found, traced.found.high) < 1e-15


def test_traces_are_reproducible(traced: Traced) -> None:
    """The noise is bit-identical. On some processors, matrix products differ in the last bit."""
    again = Traced("gpt2" if traced.model.id.startswith("tiny:gpt2") else "llama")
    assert torch.equal(again.asked.noise, traced.asked.noise)
    assert (again.found.low, again.found.high) == pytest.approx((traced.found.low, traced.found.high), abs=1e-15)
    for curve in CURVES:
        assert off(traced.swept(curve), again.swept(curve)) < 1e-15


def test_restoring_embeddings_and_all_outputs_gives_the_high_score(traced: Traced) -> None:

    def everything(hooks: Hooks) -> None:
        hooks.change(embedding_of(traced.modules), all_clean)
        for layer in traced.modules.layers:
            for part in PARTS:
                hooks.change(module_of(layer, part), all_clean)

    assert off(traced.answered(everything), traced.found.high) < 1e-15


def test_severed_curve_equals_states_at_the_last_layer(traced: Traced) -> None:
    """No module is above the last layer."""
    for part in PARTS:
        severed = Curve("states", part)
        assert off(traced.expected(severed)[:, -1], traced.expected(STATES)[:, -1]) < 1e-15
        assert off(traced.swept(severed)[:, -1], traced.swept(STATES)[:, -1]) < 1e-12


def test_severed_curve_needs_the_same_noise_in_both_passes(traced: Traced) -> None:
    """At the last layer its effect is 0. With outputs of other noise, as in the released code, it is larger."""
    noise = Noise(rule="0.4", sigma=0.4, uniform=False, seed=2)
    subject, severed = traced.end - 1, Curve("states", "mlp")
    other = record(
        traced.modules, prompt(traced.asked.ids, (traced.begin, traced.end), noise, SAMPLES, traced.modules.hidden)
    )
    mixed = reference_trace(traced.modules, evolve(traced.found, outputs=other.outputs), severed, [subject], WINDOW)
    assert off(traced.expected(severed, subject)[0, -1], traced.found.low) < 1e-15
    assert off(mixed[0, -1], traced.found.low) > 1e-5


def test_severing_lowers_the_effect_of_earlier_layers(traced: Traced) -> None:
    assert off(traced.swept(Curve("states", "mlp"))[traced.end - 1], traced.swept(STATES)[traced.end - 1]) > 1e-4


def test_only_the_subject_is_corrupted_and_the_first_row_stays_clean(traced: Traced) -> None:
    states = traced.found.embeddings
    changed = (states[1:] - states[:1]).abs().amax(dim=(0, 2)) > 0
    assert changed.nonzero().flatten().tolist() == list(range(traced.begin, traced.end))


def test_windows_are_centered_and_narrower_at_the_borders() -> None:
    curve = Curve("mlp")
    assert list(curve.window(20, 48, 10)) == list(range(15, 25))
    assert list(curve.window(2, 48, 10)) == list(range(7))
    assert list(curve.window(47, 48, 10)) == list(range(42, 48))
    assert list(curve.window(5, 8, 3)) == [4, 5, 6]
    assert list(curve.window(5, 8, 1)) == [5]


@pytest.mark.parametrize("cap", [4.0, 30.0])
def test_capped_logits_are_supported(cap: float) -> None:
    traced = Traced("gemma2")
    traced.model.module.config.final_logit_softcapping = cap
    traced.found = record(traced.modules, traced.asked)
    assert can_continue(traced.modules, traced.found)
    for curve in CURVES:
        assert off(traced.swept(curve), traced.expected(curve)) < 1e-6


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("family", ["gpt2", "gptneox", "llama", "qwen2", "olmo2", "gemma2"])
def test_passes_continue_from_kept_keys(family: Family, dtype: str) -> None:
    traced = Traced(family, dtype=dtype)
    assert can_continue(traced.modules, traced.found)


def test_wrong_kept_keys_are_detected() -> None:
    traced = Traced("llama")
    assert traced.found.cache is not None
    for kept in traced.found.cache.layers:
        kept.values = kept.values * 2
    assert not can_continue(traced.modules, traced.found)


def test_tracing_leaves_the_model_unchanged(snapshot: Any) -> None:
    model = tiny_model("gpt2")
    before = snapshot(model.module)
    Traced("gpt2")
    modules = find_parts(model.module)
    ids, subject = tokens_of(model.tokenizer, FACT)
    noise = Noise(rule="1", sigma=1.0, uniform=False, seed=1)
    found = record(modules, prompt(ids, subject, noise, SAMPLES, modules.hidden))
    sweep(modules, found, CURVES, [subject[1] - 1], WINDOW)
    reference_trace(modules, found, STATES, [subject[1] - 1], WINDOW)
    assert snapshot(model.module) == before
