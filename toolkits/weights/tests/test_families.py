"""Prerequisites of editors for every decoder family: targets, keys, causality, restoring."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from attrs import evolve

from ke_plugin_hf.guard import LowRank, Patch
from ke_plugin_hf.testing import ADDITIVE, FAMILIES, Family, tiny_model
from ke_weights import tail
from ke_weights.hooks import Hooks, forward, frozen_module
from ke_weights.keys import key_rows, subject_states
from ke_weights.modules import find_parts, module_map
from ke_weights.optimize import OptimizedTarget, TargetSettings, optimize_targets, target_rows
from ke_weights.rewrites import Rewrite
from ke_weights.subject import padded
from ke_weights.testing.reference import ReferenceOptimizer
from ke_weights.testing.reference_edits import off

SETTINGS = TargetSettings(layer=1, steps=4, lr=0.5, kl=0.0625, weight_decay=0.5, clamp=0.75, stop_loss=0.0)
Site = Literal["block", "mlp"]


FEW: tuple[Family, ...] = ("gpt2", "gptj", "qwen3", "opt", "mistral")
WHOLE_ROWS: tuple[Family, ...] = ("bloom", "mpt")  # they take no position ids


def plainly(model: Any, site: Site) -> ReferenceOptimizer:
    layer = module_map(model.module).layers[SETTINGS.layer]
    return ReferenceOptimizer(model.module, model.tokenizer, layer.block if site == "block" else layer.mlp)


def found(
    model: Any, edits: list[Rewrite], templates: tuple[str, ...], settings: TargetSettings
) -> list[OptimizedTarget]:
    return optimize_targets(
        module_map(model.module), [target_rows(model.tokenizer, edit, templates) for edit in edits], settings
    )


OWN_MLP: tuple[Family, ...] = (*FAMILIES, "bloom", "falcon", "mistral", "mpt", "opt")  # whose MLPs differ in make


@pytest.mark.parametrize(
    ("family", "site"), [*((family, "block") for family in ADDITIVE), *((family, "mlp") for family in OWN_MLP)]
)
def test_batched_edits_stop_at_the_step_of_the_reference(
    family: Family, site: Site, rewrites: list[Rewrite], templates: tuple[str, ...]
) -> None:
    """Two rows per edit, four in all: equal to the number of heads, which MPT's biases have."""
    model = tiny_model(family, dtype="float64")
    edits, left = rewrites[:2], templates[:1]
    free = [plainly(model, site).target(edit, left, SETTINGS) for edit in edits]
    low, high = sorted(free, key=lambda made: made.losses[2])
    threshold = (low.losses[2] + min(low.losses[1], high.losses[2])) / 2
    expected = [2 if made is low else 3 for made in free]
    together = found(model, edits, left, evolve(SETTINGS, site=site, stop_loss=threshold))
    for made, target, steps in zip(free, together, expected, strict=True):
        assert target.steps == steps
        assert off(target.z, made.path[steps]) < 2e-6
        assert target.loss == pytest.approx(made.losses[steps], abs=1e-5)


@pytest.mark.parametrize("family", FEW)
def test_float32_target_equals_reference(family: Family, rewrites: list[Rewrite], templates: tuple[str, ...]) -> None:
    """Excludes accidental float64."""
    model = tiny_model(family)
    made = plainly(model, "block").target(rewrites[3], templates[:2], SETTINGS)
    target = found(model, rewrites[3:], templates[:2], SETTINGS)[0]
    assert target.z.dtype == made.z.dtype == torch.float32
    assert off(target.z, made.z) < 5e-6


@pytest.mark.parametrize("family", FEW)
def test_kl_is_zero_at_first_and_its_direction_matters_in_every_family(
    family: Family, rewrites: list[Rewrite], templates: tuple[str, ...]
) -> None:
    model = tiny_model(family, dtype="float64")
    edit, left, strong = rewrites[1], templates[:1], evolve(SETTINGS, kl=1.0)
    assert abs(found(model, [edit], left, evolve(strong, steps=1))[0].kl) < 1e-6
    first = [found(model, [edit], left, evolve(SETTINGS, steps=2, kl=kl))[0].z for kl in (0.0, 10.0)]
    assert off(*first) < 1e-6
    plain = plainly(model, "block")
    right = plain.target(edit, left, strong)
    plain.swapped_kl = True
    ours = found(model, [edit], left, strong)[0]
    assert off(ours.z, right.z) < 2e-6
    assert ours.kl == pytest.approx(right.kls[-1], rel=1e-4)
    assert off(ours.z, plain.target(edit, left, strong).z) > 1e-3


@pytest.mark.parametrize("family", ADDITIVE)
def test_only_states_after_the_offset_and_above_the_layer_change(family: Family, rewrites: list[Rewrite]) -> None:
    """States before the offset are bit-identical, so suffixes equal complete rows."""
    model = tiny_model(family, dtype="float64")
    modules = module_map(model.module)
    row = rewrites[0].row(model.tokenizer)
    ids, mask = padded([row.ids], modules.device)
    states: list[list[torch.Tensor]] = []
    for size in (0.0, 1.0):
        seen: list[torch.Tensor] = []

        def moved(output: torch.Tensor, size: float = size) -> torch.Tensor:
            output = output.clone()
            output[:, row.index] += size
            return output

        with frozen_module(modules.module), Hooks() as hooks:
            hooks.change(modules.layers[1].block, moved)
            for layer in modules.layers:
                hooks.after(layer.block, seen.append)
            forward(modules.module, ids, mask)
        states.append(seen)
    for layer, (before, after) in enumerate(zip(*states, strict=True)):
        assert torch.equal(before[:, : row.index], after[:, : row.index])
        assert torch.equal(before, after) == (layer == 0)
    opened = tail.open_tail(modules, [row], 1)
    start = int(opened.start[0])
    with torch.no_grad():
        short = opened.run(states[1][1][:, start:])
    assert off(short, states[1][-1][:, start:]) < 1e-5


@pytest.mark.parametrize("family", ADDITIVE)
def test_families_that_continue_from_the_subject(family: Family, rewrites: list[Rewrite]) -> None:
    """Other families run complete rows: slower, same numbers. A new family here has changed in transformers."""
    model = tiny_model(family)
    rows = [edit.row(model.tokenizer) for edit in rewrites[:2]]
    opened = tail.open_tail(module_map(model.module), rows, 1)
    assert bool(opened.start.any()) == (family not in WHOLE_ROWS)


@pytest.mark.parametrize("family", ADDITIVE)
def test_keys_of_a_padded_batch_equal_single_rows(family: Family, rewrites: list[Rewrite]) -> None:
    model = tiny_model(family, dtype="float64")
    modules = module_map(model.module)
    together = subject_states(modules, key_rows(model.tokenizer, rewrites, ("{}",)), 2)
    for at, edit in enumerate(rewrites):
        row = edit.row(model.tokenizer)
        seen: list[torch.Tensor] = []
        with frozen_module(modules.module), Hooks() as hooks:
            hooks.after(modules.layers[2].block, seen.append)
            forward(modules.module, *padded([row.ids], modules.device))
        assert off(together[:, at], seen[0][0, row.index]) < 1e-6


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("family", ADDITIVE)
def test_patch_of_every_layer_is_restored_bit_for_bit(family: Family, dtype: str, snapshot: Any) -> None:
    """Also if the edit fails halfway."""
    module = tiny_model(family, dtype=dtype).module
    before = snapshot(module)
    layers = find_parts(module).layers

    def edit() -> None:
        with Patch(module) as weights:
            for layer in layers:
                left = torch.full((layer.matrix.shape[0], 1), 0.37)
                weights.add(layer.weight_name, LowRank(left=left, right=torch.ones(1, layer.matrix.shape[1])))
            assert snapshot(module) != before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        edit()
    assert snapshot(module) == before


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("family", OWN_MLP)
def test_targets_of_half_precision_models_are_finite_float32(
    family: Family, dtype: str, rewrites: list[Rewrite], templates: tuple[str, ...]
) -> None:
    settings = evolve(SETTINGS, steps=2)
    half = found(tiny_model(family, dtype=dtype), rewrites[:2], templates[:2], settings)
    full = found(tiny_model(family), rewrites[:2], templates[:2], settings)
    for one, other in zip(half, full, strict=True):
        assert one.z.dtype == torch.float32
        assert bool(one.z.isfinite().all())
        assert one.loss == pytest.approx(other.loss, abs=0.3)


def test_sliding_window_before_the_subject_gives_no_gradient(templates: tuple[str, ...]) -> None:
    """Mistral's window is 8 tokens here, with two blocks above: 20 tokens later, the subject has no effect."""
    model = tiny_model("mistral", dtype="float64")
    prompt = (
        "Apple was created in the country of the author of the book of the head of the football club of the city of"
    )
    edit = Rewrite(id="far", prompt=prompt, span=(0, 5), target="Rome")
    row = edit.row(model.tokenizer)
    assert len(row.ids) - 1 - row.index > 2 * 7
    losses = [found(model, [edit], templates[:1], evolve(SETTINGS, steps=n, weight_decay=0.0))[0].nll for n in (1, 3)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)
