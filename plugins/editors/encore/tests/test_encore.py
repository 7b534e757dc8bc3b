"""ENCORE's norm constraint and early stopping, and its published values."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import Cloze, Edit, Entity
from ke_plugin_encore import EncoreConfig, derive
from ke_plugin_hf.testing import Family
from ke_testing.examples import FOUR_MOVES, facts_of
from ke_weights.plugin import dense, ridge_update
from ke_weights.testing.reference import F, random_covariance, random_problem
from ke_weights.testing.reference_memit import LIMITS, ReferenceMemit, distances

pytestmark = pytest.mark.usefixtures("one_thread")

OPTIONS = {"clamp": "4", "steps": "12", "stop_loss": "0", "encore.norm": "5", "encore.hits": "2"}
"""Options with which targets become the most probable text before the last step."""
WORDS = ("country", "capital", "Apple", "was")
"""Objects of one token. Random models cannot learn longer ones."""


def reachable(edit: Edit, word: str) -> Edit:
    """Return ``edit`` with another object, and with a prompt that ends in the subject."""
    assert edit.after is not None
    after = evolve(edit.after, objects=(Entity(label=word),))
    return evolve(edit, after=after, cloze=Cloze(template="The city of {}", subject=after.subject.label))


class ReferenceEncore(ReferenceMemit):
    """Adds 5 I to the normal matrix, and stops a target after two evaluations in which it is most probable."""

    settings = evolve(ReferenceMemit.settings, clamp=4.0, steps=12, stop_loss=0.0, stop_hits=2)
    batches = tuple([reachable(edit, word)] for edit, word in zip(FOUR_MOVES, WORDS, strict=True))

    def normal(self, layer: int, keys: Tensor) -> Tensor:
        return super().normal(layer, keys) + 5.0 * torch.eye(len(keys), dtype=torch.float64)

    def target(self, edit: Edit) -> Tensor:
        found = self.model.target(edit, 2, self.settings, mlp=False)
        assert 1 <= found.steps < 11, "it stops early"
        return found.z.double()


@pytest.mark.parametrize(("family", "dtype"), LIMITS)
def test_edits_equal_the_reference(family: Family, dtype: str, tmp_path: Path) -> None:
    assert max(distances("memit+encore", ReferenceEncore, family, dtype, tmp_path, OPTIONS)) < LIMITS[family, dtype]


def test_norm_constraint_adds_the_identity_to_the_normal_matrix() -> None:
    covariance, (keys, residual) = random_covariance(), random_problem(5)
    found = dense(ridge_update(covariance.plus_ridge(10.0 / 3.0), keys, residual, 3.0))
    normal = 3.0 * covariance.matrix + 10.0 * torch.eye(F).double() + keys @ keys.T
    torch.testing.assert_close(found, residual @ torch.linalg.solve(normal, keys).T)


def test_published_models_get_their_values() -> None:
    found = derive(EncoreConfig(), facts_of("llama", 32, 4096, 14336))
    assert (found["norm"].value, found["hits"].value) == (20.0, 2)
