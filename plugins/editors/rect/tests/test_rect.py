"""RECT against the published equation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_rect.wrapper import largest_changes
from ke_testing.examples import FOUR_MOVES
from ke_testing.fakes import make_session
from ke_weights.testing.reference_edits import ReferenceModel
from ke_weights.testing.reference_memit import LAYERS, LIMITS, ReferenceMemit, distances
from ke_weights.testing.wrapping import wrapped_editor

pytestmark = pytest.mark.usefixtures("one_thread")

KEEP = 0.4


class ReferenceRect(ReferenceMemit):
    """Solves every layer with whole updates, then writes the entries with the largest |dW| / |W|."""

    inside = False

    def filtered(self, layer: int, update: Tensor) -> Tensor:
        ratio = update.abs() / (self.weight(layer).abs() + 1e-8)
        kept = torch.zeros(ratio.numel(), dtype=torch.bool)
        kept[ratio.flatten().argsort(descending=True)[: round(KEEP * ratio.numel())]] = True
        return update * kept.reshape(ratio.shape)


class ReferenceRectInside(ReferenceRect):
    """Filters in the loop over layers."""

    inside = True


def test_edits_equal_the_reference(tmp_path: Path) -> None:
    assert max(distances("memit+rect", ReferenceRect, "gpt2", "float64", tmp_path)) < LIMITS["gpt2", "float64"]


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_float32_updates_equal_the_reference(family: Family, tmp_path: Path) -> None:
    """RECT of the traced update of MEMIT. Its rank order depends on rounding, so both solve for the same targets."""
    session = make_session(tiny_model(family), root=tmp_path)
    plain = ReferenceRect(family, "float32", ("{}",))
    found = []
    for name in ("memit", "memit+rect"):
        editor = wrapped_editor(name)
        trace = editor.traced()
        with editor.edit(session, FOUR_MOVES):
            found.append(trace.batches[0].layers)
    for layer, solved in found[0].items():
        expected = plain.filtered(layer, torch.tensor(solved.update))
        assert float((torch.tensor(found[1][layer].update) - expected).norm() / expected.norm()) < 1e-5


def test_edits_that_are_filtered_inside_the_loop_equal_the_reference(tmp_path: Path) -> None:
    found = distances("memit+rect", ReferenceRectInside, "gpt2", "float64", tmp_path, {"rect.when": "inside"})
    assert max(found) < LIMITS["gpt2", "float64"]


HISTORIES = {
    "alphaedit": ("_earlier", {"nullspace_threshold": "0.5", "l2": "1", "clamp": "4"}),
    "nse": ("_history", {"alpha": "0", "upper": "1e9", "p": "1", "passes": "1"}),
}
"""By editor: the attribute with the keys of its history, and options for a large update."""


@pytest.mark.parametrize("when", ["after", "inside"])
@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_has_the_keys_of_the_filtered_weights(name: str, when: str, tmp_path: Path) -> None:
    model = tiny_model("llama", dtype="float64")
    attribute, options = HISTORIES[name]
    editor = wrapped_editor(f"{name}+rect", {**options, "rect.when": when})
    with editor.edit(make_session(model, root=tmp_path), FOUR_MOVES[:1]):
        ((context, (kept,)),) = getattr(editor, attribute)._values.items()
        plain = ReferenceModel(model, "llama", context.templates)
        for layer in LAYERS:
            torch.testing.assert_close(kept[layer][:, 0], plain.grouped_key(FOUR_MOVES[0], layer))
        del context


@pytest.mark.parametrize("keep", [0.2, 0.4, 0.75, 1.0])
def test_entries_with_the_largest_relative_change_are_kept(keep: float) -> None:
    draw = torch.Generator().manual_seed(0)
    update, weight = (torch.randn(20, 48, dtype=torch.float64, generator=draw) for _ in range(2))
    ranked = sorted(range(960), key=lambda at: -float(update.flatten()[at].abs() / weight.flatten()[at].abs()))
    expected = torch.zeros(960, dtype=torch.float64)
    for at in ranked[: round(keep * 960)]:
        expected[at] = update.flatten()[at]
    found = largest_changes(update, weight, keep)
    assert torch.equal(found.flatten(), expected)
    assert torch.equal(largest_changes(3 * update, weight, keep) != 0, found != 0)


def test_a_weight_of_minus_epsilon_divides_by_no_zero() -> None:
    """The released code divides by W + 1e-8, which is 0 here."""
    weight = torch.tensor([[-1e-8, 1.0, 1.0]], dtype=torch.float64)
    found = largest_changes(torch.tensor([[0.0, 1.0, 2.0]], dtype=torch.float64), weight, 1 / 3)
    assert found.tolist() == [[0.0, 0.0, 2.0]]
