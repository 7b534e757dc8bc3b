"""NAS against the published rule."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from ke_core.plugin import BadConfig, Edit
from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_nas import NasConfig
from ke_plugin_nas.facts import builtin_facts
from ke_plugin_nas.wrapper import Nas, scale_to
from ke_testing.examples import FOUR_MOVES
from ke_testing.fakes import make_session
from ke_weights.testing.reference_memit import LIMITS, ReferenceMemit, distances
from ke_weights.testing.wrapping import wrapped_editor

pytestmark = pytest.mark.usefixtures("one_thread")


class ReferenceNas(ReferenceMemit):
    """Scales v* = v0 + delta to the norm A, or gives the edit up if |v*| is too large."""

    anchor, limit = 17.0, 1.25

    def parts(self, edit: Edit) -> tuple[Tensor, Tensor, Tensor]:
        """Return the state h, the MLP's output v0 and v*."""
        state, value = self.state(edit), self.model.value(edit, 2).double()
        return state, value, value + super().target(edit) - state

    def target(self, edit: Edit) -> Tensor:
        state, value, wanted = self.parts(edit)
        norm = wanted.norm()
        return state - value + (value if norm > self.limit * self.anchor else wanted * self.anchor / norm)


class MeasuredNas(ReferenceNas):
    """A is the mean of |v*| over five bare facts on the original model, without the largest one."""

    anchor, limit = 0.0, 2.0

    def target(self, edit: Edit) -> Tensor:
        if not self.anchor:
            facts = builtin_facts()
            Random(0).shuffle(facts)
            contexts, self.model.templates = self.model.templates, ("{}",)
            norms = sorted(float(self.parts(fact)[2].norm()) for fact in facts[:5])
            self.anchor = sum(norms[:4]) / 4
            assert len(contexts) > 1
            self.model.templates = contexts
        return super().target(edit)


@pytest.mark.parametrize(("family", "dtype"), LIMITS)
def test_edits_equal_the_reference(family: Family, dtype: str, tmp_path: Path) -> None:
    found = distances("memit+nas", ReferenceNas, family, dtype, tmp_path, {"nas.anchor": "17", "nas.limit": "1.25"})
    assert max(found) < LIMITS[family, dtype]


def test_the_measured_anchor_equals_the_reference(tmp_path: Path) -> None:
    options = {"nas.samples": "5", "nas.drop": "0.2"}
    found = distances("memit+nas", MeasuredNas, "gpt2", "float64", tmp_path, options)
    assert max(found) < LIMITS["gpt2", "float64"]


def test_abandoned_edits_are_reported(tmp_path: Path) -> None:
    session = make_session(tiny_model("gpt2"), root=tmp_path)
    with wrapped_editor("memit+nas", {"nas.anchor": "0.001"}).edit(session, FOUR_MOVES[:2]) as edited:
        details = edited.details["wrappers"]
    assert details["nas"]["abandoned"] == [edit.id for edit in FOUR_MOVES[:2]]


def test_the_trace_has_the_scaled_targets(tmp_path: Path) -> None:
    editor = wrapped_editor("memit+nas", {"nas.samples": "3"})
    trace = editor.traced()
    with editor.edit(make_session(tiny_model("gpt2"), root=tmp_path), FOUR_MOVES[:1]):
        (batch,) = trace.batches
    assert batch.edits == (FOUR_MOVES[0].id,)
    plain = wrapped_editor("memit")
    other = plain.traced()
    with plain.edit(make_session(tiny_model("gpt2"), root=tmp_path), FOUR_MOVES[:1]):
        assert batch.targets.tolist() != other.batches[0].targets.tolist()


def test_targets_get_the_norm_of_the_anchor_or_are_abandoned() -> None:
    draw = torch.Generator().manual_seed(0)
    value = torch.randn(20, 3, dtype=torch.float64, generator=draw)
    wanted = value.clone() * torch.tensor([0.1, 1.0, 50.0], dtype=torch.float64)
    found, abandoned = scale_to(wanted, value, 4.0, 2.0)
    assert abandoned.tolist() == [False, False, True]
    torch.testing.assert_close(found[:, :2].norm(dim=0), torch.full((2,), 4.0, dtype=torch.float64))
    torch.testing.assert_close(torch.cosine_similarity(found[:, :2], wanted[:, :2], dim=0), torch.ones(2).double())
    assert torch.equal(found[:, 2], value[:, 2])


@pytest.mark.parametrize("option", [{"facts": "edits.json"}, {"samples": 7}, {"drop": 0.5}])
def test_options_of_the_mean_are_refused_with_an_anchor(option: Any) -> None:
    Nas(NasConfig(**option))
    Nas(NasConfig(anchor=3.0))
    with pytest.raises(BadConfig, match=f"nas.{next(iter(option))}=.* has no effect with nas.anchor=3.0"):
        Nas(NasConfig(anchor=3.0, **option))


def test_builtin_facts_are_distinct_and_counterfactual() -> None:
    found = builtin_facts()
    assert len({edit.id for edit in found}) == len(found) == 102
    assert all(edit.before and edit.after and edit.before.objects != edit.after.objects for edit in found)
