"""PRUNE against the published equation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_prune import wrapper
from ke_plugin_prune.wrapper import correction, spectral_norm
from ke_testing.examples import FOUR_MOVES
from ke_testing.fakes import make_session
from ke_weights.plugin import dense
from ke_weights.testing.reference_edits import ReferenceModel
from ke_weights.testing.reference_memit import LAYERS, LIMITS, ReferenceMemit, distances
from ke_weights.testing.weights import changes, weights_of
from ke_weights.testing.wrapping import wrapped_editor

pytestmark = pytest.mark.usefixtures("one_thread")

BOUND, BASE = 0.05, 1e30


class ReferencePrune(ReferenceMemit):
    """Keeps the unrestrained weights, and restrains the sum of the updates after each batch."""

    def final(self, layer: int) -> Tensor:
        left, values, right = torch.linalg.svd(self.weight(layer) - self.originals[layer], full_matrices=False)
        found = self.originals[layer].clone()
        for at, value in enumerate(values.tolist()):
            kept = math.log(value) / math.log(BASE) - math.log(BOUND) / math.log(BASE) + BOUND
            found += (kept if value > BOUND else value) * torch.outer(left[:, at], right[at])
        return found


@pytest.mark.parametrize(("family", "dtype"), LIMITS)
def test_edits_equal_the_reference(family: Family, dtype: str, tmp_path: Path) -> None:
    options = {"prune.bound": str(BOUND), "prune.base": str(BASE)}
    assert max(distances("memit+prune", ReferencePrune, family, dtype, tmp_path, options)) < LIMITS[family, dtype]


HISTORIES = {
    "alphaedit": {"nullspace_threshold": "0.5", "l2": "1", "clamp": "4"},
    "nse": {"alpha": "0", "upper": "1e9", "p": "1", "passes": "1"},
}
"""Editors with a history of keys, and options for updates above ``bound`` of the test."""


@pytest.mark.parametrize("name", HISTORIES)
def test_a_sequence_with_a_key_history_equals_one_correction_at_the_end(name: str, tmp_path: Path) -> None:
    """The history has the keys of the weights without the correction."""
    bound, base = 0.3, 1000.0
    plain, found = (
        sequence(editor, HISTORIES[name] | options, tmp_path)
        for editor, options in ((name, {}), (f"{name}+prune", {"prune.bound": str(bound), "prune.base": str(base)}))
    )
    for layer, total in plain.items():
        expected = restrained(total, bound, base)
        assert float((total - expected).norm() / total.norm()) > 0.1
        assert float((found[layer] - expected).norm() / expected.norm()) < 1e-12


def sequence(name: str, options: Mapping[str, str], root: Path) -> dict[str, Tensor]:
    """Return the sum of the updates of four edits of a float64 model, made one after another."""
    model = tiny_model("llama", dtype="float64")
    session, before, editor = make_session(model, root=root), weights_of(model), wrapped_editor(name, options)
    with ExitStack() as active:
        for edit in FOUR_MOVES:
            active.enter_context(editor.edit(session, [edit]))
        return changes(model, before)


def test_default_bound_is_the_spectral_norm_of_the_original_weight(tmp_path: Path) -> None:
    session = make_session(tiny_model("gpt2", dtype="float64"), root=tmp_path)
    model = ReferenceModel(session.model, "gpt2")
    norms = {str(layer): float(torch.linalg.svdvals(model.weight(layer))[0]) for layer in LAYERS}
    editor = wrapped_editor("memit+prune", {})
    with ExitStack() as active:
        for edits in ReferenceMemit.batches:
            details: Any = active.enter_context(editor.edit(session, edits)).details
            assert details["wrappers"]["prune"]["bounds"] == pytest.approx(norms, rel=1e-12)


def restrained(total: Tensor, bound: float, base: float) -> Tensor:
    return total + dense(correction(total, bound, base))


def test_spectral_norm_is_the_largest_singular_value() -> None:
    draw = torch.Generator().manual_seed(0)
    for shape in ((20, 48), (48, 20)):
        matrix = torch.randn(shape, dtype=torch.float64, generator=draw)
        assert spectral_norm(matrix) == pytest.approx(float(torch.linalg.svdvals(matrix)[0]), rel=1e-12)


def test_corrections_are_low_rank_and_in_the_precision_of_the_weights(tmp_path: Path) -> None:
    session = make_session(tiny_model("gpt2"), root=tmp_path)
    editor = wrapped_editor("memit+prune", {"prune.bound": str(BOUND), "prune.base": str(BASE)})
    corrections = editor.wrappers["prune"].corrections
    with ExitStack() as active:
        for edits in ReferenceMemit.batches:
            active.enter_context(editor.edit(session, edits))
        (kept,) = corrections._values.values()
        assert len(kept) == len(ReferenceMemit.batches)
        for one in kept[-1].values():
            assert one.left.dtype == torch.float32
            assert one.left.shape[1] <= sum(len(edits) for edits in ReferenceMemit.batches)


def test_norm_of_an_unchanged_original_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Separate edits start from the same weights."""
    session = make_session(tiny_model("gpt2"), root=tmp_path)
    editor, shapes = wrapped_editor("memit+prune", {}), list[str]()

    def counted(matrix: Tensor) -> float:
        shapes.append(str(matrix.shape))
        return spectral_norm(matrix)

    monkeypatch.setattr(wrapper, "spectral_norm", counted)
    found: list[Any] = []
    for _ in range(2):
        with editor.edit(session, ReferenceMemit.batches[0]) as edited:
            found.append(edited.details)
    assert found[0] == found[1]
    assert len(shapes) == 3 * len(LAYERS)  # the original weights once, and the sum of updates twice


def test_large_singular_values_are_compressed_and_small_ones_kept() -> None:
    draw = torch.Generator().manual_seed(0)
    total = torch.randn(20, 48, dtype=torch.float64, generator=draw)
    before = torch.linalg.svdvals(total)
    after = torch.linalg.svdvals(restrained(total, 6.0, math.e))
    expected = [math.log(s) - math.log(6) + 6 if s > 6 else s for s in before.tolist()]
    assert after.tolist() == pytest.approx(expected, abs=1e-10)
    torch.testing.assert_close(restrained(total, 100.0, math.e), total)


def test_values_above_the_bound_never_grow() -> None:
    """With base 1.2 and m = 2, the published formula turns 8 into 9.6."""
    found = restrained(torch.diag(torch.tensor([8.0, 1.0], dtype=torch.float64)), 2.0, 1.2)
    assert torch.linalg.svdvals(found).tolist() == pytest.approx([8.0, 1.0])
