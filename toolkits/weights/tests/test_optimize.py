"""Target optimization compared with the reference implementation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor, nn

from ke_core.plugin import EditFailed
from ke_plugin_hf.testing import Family, tiny_model, tiny_tokenizer
from ke_weights import tail
from ke_weights.modules import module_map
from ke_weights.optimize import OptimizedTarget, TargetSettings, optimize_targets, target_rows
from ke_weights.rewrites import Rewrite
from ke_weights.testing.reference import ReferenceOptimizer
from ke_weights.testing.reference_edits import off

SETTINGS = TargetSettings(layer=1, steps=8, lr=0.5, kl=0.0625, weight_decay=0.5, clamp=0.75)


def found(
    model: Any, edits: list[Rewrite], templates: tuple[str, ...], settings: TargetSettings
) -> list[OptimizedTarget]:
    plans = [target_rows(model.tokenizer, edit, templates) for edit in edits]
    return optimize_targets(module_map(model.module), plans, settings)


@pytest.mark.parametrize(
    ("family", "dtype", "tolerance"),
    [("gpt2", "float64", 1e-12), ("gptj", "float64", 1e-6), ("llama", "float64", 1e-6), ("llama", "float32", 5e-6)],
)
@pytest.mark.parametrize("layer", [0, 1])
def test_batched_and_single_optimization_equal_reference(
    family: Family, dtype: str, tolerance: float, layer: int, rewrites: list[Rewrite], templates: tuple[str, ...]
) -> None:
    model = tiny_model(family, dtype=dtype, bos=layer == 1)
    settings = evolve(SETTINGS, layer=layer, steps=5)
    together = found(model, rewrites, templates, settings)
    modules = module_map(model.module)
    for edit, target in zip(rewrites, together, strict=True):
        made = ReferenceOptimizer(model.module, model.tokenizer, modules.layers[layer].block).target(
            edit, templates, settings
        )
        assert off(target.z, made.z) < tolerance
        assert off(found(model, [edit], templates, settings)[0].z, made.z) < tolerance
        assert target.steps == made.steps
        assert target.loss == pytest.approx(made.losses[-1], abs=1e-4)
        assert target.z.dtype == getattr(torch, dtype)


@pytest.mark.parametrize("family", ["gpt2", "gptj", "gptneox", "llama", "qwen2"])
def test_suffixes_with_kept_keys_equal_whole_rows(
    family: Family, rewrites: list[Rewrite], templates: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(family, dtype="float64")
    plans = [target_rows(model.tokenizer, edit, templates) for edit in rewrites]
    rows = [row for made in plans for row in (*made.rows, made.essence)]
    opened = tail.open_tail(module_map(model.module), rows, 1)
    assert opened.start.tolist() == [row.index for row in rows]
    assert opened.hidden.shape[1] < max(len(row.ids) for row in rows)
    short = optimize_targets(module_map(model.module), plans, SETTINGS)
    monkeypatch.setattr(tail, "_agree", lambda *_: False)
    whole = optimize_targets(module_map(model.module), plans, SETTINGS)
    for one, other in zip(short, whole, strict=True):
        # All but GPT-2 reckon attention or its angles in float32, whatever the model's type.
        assert off(one.z, other.z) < (1e-12 if family == "gpt2" else 1e-6)


def test_blocks_share_one_cache_after_edits_finish(rewrites: list[Rewrite], templates: tuple[str, ...]) -> None:
    """Separate copies would store all keys and values once per block."""
    model = tiny_model("llama")
    rows = [row for one in rewrites for row in target_rows(model.tokenizer, one, templates).rows]
    opened = tail.open_tail(module_map(model.module), rows, 1)
    kept = opened.keep(torch.arange(len(rows) - 1))
    caches = {id(call.kwargs["past_key_values"]) for call in kept.calls}
    assert len(kept.calls) == 2
    assert len(caches) == 1
    assert kept.calls[0].kwargs["past_key_values"].layers[0].keys.shape[0] == len(rows) - 1


def test_edits_stop_independently(rewrites: list[Rewrite], templates: tuple[str, ...]) -> None:
    """With this threshold, the edits of the fixture stop at different steps."""
    model = tiny_model("gpt2", dtype="float64")
    settings = evolve(SETTINGS, steps=12, stop_loss=6.4)
    plain = ReferenceOptimizer(model.module, model.tokenizer, module_map(model.module).layers[1].block)
    together = found(model, rewrites, templates, settings)
    assert len({target.steps for target in together}) >= 3
    for edit, target in zip(rewrites, together, strict=True):
        made = plain.target(edit, templates, settings)
        assert target.steps == made.steps
        assert off(target.z, made.z) < 1e-12


@pytest.mark.parametrize("clamp", [0.05, 0.75, 4.0])
def test_updates_are_fewer_than_steps_and_clamped(
    clamp: float, rewrites: list[Rewrite], templates: tuple[str, ...]
) -> None:
    model = tiny_model("llama")
    for steps in (1, 3):
        for target in found(model, rewrites, templates, evolve(SETTINGS, steps=steps, clamp=clamp)):
            assert target.steps == steps - 1
            assert target.change <= clamp * (1 + 1e-6)
            assert (target.change == 0) == (steps == 1)


def test_kl_is_zero_at_first_and_its_direction_matters(rewrites: list[Rewrite], templates: tuple[str, ...]) -> None:
    """KL(now || before), with zero gradient before the first update."""
    model = tiny_model("gpt2", dtype="float64")
    first = found(model, rewrites, templates, evolve(SETTINGS, steps=1, kl=10.0))
    assert all(abs(target.kl) < 1e-12 for target in first)
    one_step = [found(model, rewrites, templates, evolve(SETTINGS, steps=2, kl=kl)) for kl in (0.0, 10.0)]
    assert all(off(a.z, b.z) < 1e-12 for a, b in zip(*one_step, strict=True))
    strong = evolve(SETTINGS, kl=1.0)
    block = module_map(model.module).layers[1].block
    right, swapped = (
        ReferenceOptimizer(model.module, model.tokenizer, block, swapped_kl=other)
        .target(rewrites[0], templates, strong)
        .z
        for other in (False, True)
    )
    ours = found(model, rewrites[:1], templates, strong)[0].z
    assert off(ours, right) < 1e-12
    assert off(ours, swapped) > 1e-3


def test_target_does_not_depend_on_batch_or_padding(rewrites: list[Rewrite], templates: tuple[str, ...]) -> None:
    model = tiny_model("gpt2", dtype="float64")
    forth = found(model, rewrites, templates, SETTINGS)
    back = found(model, rewrites[::-1], templates, SETTINGS)[::-1]
    pair = found(model, rewrites[:2], templates, SETTINGS)
    for one, other in [*zip(forth, back, strict=True), *zip(forth[:2], pair, strict=True)]:
        assert off(one.z, other.z) < 1e-12
        assert one.kl == pytest.approx(other.kl, abs=1e-12)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_model_is_optimized_in_float32(
    dtype: str, rewrites: list[Rewrite], templates: tuple[str, ...]
) -> None:
    exact = found(tiny_model("llama"), rewrites, templates, SETTINGS)
    for half, full in zip(found(tiny_model("llama", dtype=dtype), rewrites, templates, SETTINGS), exact, strict=True):
        assert half.z.dtype == torch.float32
        assert bool(half.z.isfinite().all())
        assert half.loss < full.loss + 1


def test_infinite_loss_error_names_the_edit(rewrites: list[Rewrite], templates: tuple[str, ...]) -> None:
    with pytest.raises(EditFailed, match=f"edit '{rewrites[0].id}' is not finite at step"):
        found(tiny_model("llama"), rewrites[:1], templates, evolve(SETTINGS, lr=float("inf")))


def test_model_is_unchanged(rewrites: list[Rewrite], templates: tuple[str, ...], snapshot: Any) -> None:
    model = tiny_model("qwen2")
    model.module.requires_grad_(requires_grad=True)
    before = snapshot(model.module)
    found(model, rewrites, templates, SETTINGS)
    with pytest.raises(EditFailed):
        found(model, rewrites, templates, evolve(SETTINGS, lr=float("inf")))
    assert before == snapshot(model.module)


def test_states_before_the_offset_and_below_the_layer_are_unchanged(rewrites: list[Rewrite]) -> None:
    """So the tail can omit them."""
    model = tiny_model("gpt2", dtype="float64")
    modules = module_map(model.module)
    row = rewrites[2].row(model.tokenizer)
    opened = tail.open_tail(modules, [row], 1)
    whole = tail._recorded(modules, torch.tensor([row.ids]), torch.ones(1, len(row.ids)), 1, {})[0]
    moved = whole.hidden.clone()
    moved[0, row.index] += 1.0
    with torch.no_grad():
        before, after = whole.run(whole.hidden), whole.run(moved)
        short = opened.run(moved[:, row.index :])
    assert torch.equal(before[0, : row.index], after[0, : row.index])
    assert off(short[0], after[0, row.index :]) < 1e-12


class Block(nn.Module):
    """Attention by running means: causal, and enough for a decoder to be edited."""

    def __init__(self, *, tuples: bool) -> None:
        super().__init__()
        self.attn_out, self.up, self.down = nn.Linear(16, 16), nn.Linear(16, 24), nn.Linear(24, 16)
        self.tuples = tuples

    def forward(self, hidden_states: Tensor) -> Any:
        count = torch.arange(1, hidden_states.shape[1] + 1)[None, :, None]
        attended = hidden_states + self.attn_out(hidden_states.cumsum(1) / count)
        output = attended + self.down(torch.tanh(self.up(attended)))
        return (output, None) if self.tuples else output


class Decoder(nn.Module):
    """A model without arguments for caches and position ids."""

    def __init__(self, *, tuples: bool) -> None:
        super().__init__()
        self.config = SimpleNamespace(num_hidden_layers=3, hidden_size=16, model_type="own", is_encoder_decoder=False)
        self.embedding, self.head = nn.Embedding(400, 16), nn.Linear(16, 400)
        self.blocks, self.norm = nn.ModuleList(Block(tuples=tuples) for _ in range(3)), nn.LayerNorm(16)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, use_cache: bool = False) -> Any:
        hidden = self.embedding(input_ids)
        for block in self.blocks:
            output = block(hidden)
            hidden = output[0] if isinstance(output, tuple) else output
        return SimpleNamespace(logits=self.head(self.norm(hidden)))


def test_blocks_that_return_tuples_give_the_same_targets(rewrites: list[Rewrite], templates: tuple[str, ...]) -> None:
    """On a model that runs complete rows."""
    zs = []
    for tuples in (False, True):
        torch.manual_seed(0)
        model = SimpleNamespace(module=Decoder(tuples=tuples).double(), tokenizer=tiny_tokenizer())
        zs.append([target.z for target in found(model, rewrites, templates, SETTINGS)])
        plain = ReferenceOptimizer(model.module, model.tokenizer, model.module.blocks[1])
        assert off(zs[-1][1], plain.target(rewrites[1], templates, SETTINGS).z) < 1e-12
    assert all(torch.equal(one, other) for one, other in zip(*zs, strict=True))
