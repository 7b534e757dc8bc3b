"""REVIVE against the published projections."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_revive import wrapper
from ke_plugin_revive.wrapper import Subspace, dominant
from ke_testing.examples import FOUR_MOVES
from ke_testing.fakes import make_session
from ke_weights.plugin import Dense, LowRank, dense
from ke_weights.testing.reference_memit import LAYERS, LIMITS, ReferenceMemit, distances
from ke_weights.testing.weights import changes, weights_of
from ke_weights.testing.wrapping import wrapped_editor

pytestmark = pytest.mark.usefixtures("one_thread")


class ReferenceRevive(ReferenceMemit):
    """Removes the part of an update in the singular subspace of the original weight that has half of its energy."""

    def filtered(self, layer: int, update: Tensor) -> Tensor:
        left, values, right = torch.linalg.svd(self.originals[layer])
        rank = next(k for k in range(len(values)) if (values[:k] ** 2).sum() >= 0.5 * (values**2).sum())
        rows = torch.eye(len(left), dtype=torch.float64) - left[:, :rank] @ left[:, :rank].T
        columns = torch.eye(len(right), dtype=torch.float64) - right[:rank].T @ right[:rank]
        return rows @ update @ columns


@pytest.mark.parametrize(("family", "dtype"), LIMITS)
def test_edits_equal_the_reference(family: Family, dtype: str, tmp_path: Path) -> None:
    found = distances("memit+revive", ReferenceRevive, family, dtype, tmp_path, {"revive.energy": "0.5"})
    assert max(found) < LIMITS[family, dtype]


def test_leading_singular_triplets_do_not_change() -> None:
    draw = torch.Generator().manual_seed(0)
    weight, left, right = (
        torch.randn(*size, dtype=torch.float64, generator=draw) for size in ((20, 48), (20, 3), (3, 48))
    )
    space = dominant(weight, 0.5)
    u, s, v = torch.linalg.svd(weight, full_matrices=False)
    rank = next(k for k in range(1, 21) if float((s[:k] ** 2).sum() / (s**2).sum()) >= 0.5)
    assert space.left.shape == (20, rank)
    update = dense(space.outside(LowRank(left=left, right=right)))
    torch.testing.assert_close(dense(space.outside(Dense(delta=left @ right))), update)
    torch.testing.assert_close((weight + update) @ v[:rank].T, weight @ v[:rank].T)
    torch.testing.assert_close(u[:, :rank].T @ (weight + update), u[:, :rank].T @ weight)


INSIDE = {"rect.when": "inside"}


@pytest.mark.parametrize(
    ("wrappers", "options", "last"),
    [
        ("rect+revive", {}, "rect"),
        ("revive+rect", {}, "rect"),
        ("revive+rect", INSIDE, "rect"),
        ("rect+revive", INSIDE, "revive"),
        ("revive+prune", {"prune.bound": "0.05", "prune.base": "1e30"}, "revive"),
    ],
)
def test_the_subspace_is_protected_unless_rect_filters_later(
    wrappers: str, options: Mapping[str, str], last: str, tmp_path: Path
) -> None:
    """``last``: the wrapper that filters last, of whose property nothing is lost."""
    model = tiny_model("llama", dtype="float64")
    before = weights_of(model)
    editor = wrapped_editor(f"memit+{wrappers}", {"revive.energy": "0.5"} | options)
    with editor.edit(make_session(model, root=tmp_path), FOUR_MOVES):
        made = changes(model, before)
    assert len(made) == len(LAYERS)
    for name, change in made.items():
        space = dominant(before[name], 0.5)
        changed = max((space.left.T @ change).norm(), (change @ space.right.T).norm()) / change.norm()
        assert changed < 1e-10 if last == "revive" else changed > 0.01
        written = float((change != 0).double().mean())
        assert written == pytest.approx(0.4, abs=0.001) if last == "rect" else written > 0.9


def test_the_order_of_the_name_does_not_matter_by_default(tmp_path: Path) -> None:
    """``rect`` acts after the loop over layers, ``revive`` in it."""
    found: list[dict[str, Tensor]] = []
    for wrappers in ("rect+revive", "revive+rect"):
        model = tiny_model("llama")
        before, editor = weights_of(model), wrapped_editor(f"memit+{wrappers}", {"revive.energy": "0.5"})
        with editor.edit(make_session(model, root=tmp_path), FOUR_MOVES):
            found.append(changes(model, before))
    one, other = found
    assert set(one) == set(other) != set()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_subspaces_of_an_unchanged_weight_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Separate edits start from the same weights; another model does not."""
    computed: list[Tensor] = []

    def counted(weight: Tensor, energy: float) -> Subspace:
        computed.append(weight)
        return dominant(weight, energy)

    monkeypatch.setattr(wrapper, "dominant", counted)
    editor = wrapped_editor("memit+revive", {"revive.energy": "0.5"})
    for family in ("gpt2", "gpt2", "llama"):
        with editor.edit(make_session(tiny_model(family), root=tmp_path), FOUR_MOVES[:1]):
            pass
    assert len(computed) == 2 * len(LAYERS)
