"""Reference implementation of MEMIT with an update wrapper, for tests of wrappers.

It processes one edit, one layer and one matrix at a time, with the float64 inverse of the whole normal matrix. A
subclass overrides the steps that its wrapper changes, with the published equations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from ke_core.plugin import Edit
from ke_plugin_hf.testing import Family, tiny_model
from ke_testing.examples import FOUR_MOVES
from ke_testing.fakes import make_session
from ke_weights.optimize import TargetSettings
from ke_weights.testing.reference_edits import ReferenceModel
from ke_weights.testing.wrapping import SMALL, wrapped_editor

LAYERS = (1, 2)
LIMITS: Mapping[tuple[Family, str], float] = {
    ("gpt2", "float64"): 1e-10,
    ("gpt2", "float32"): 1e-5,
    ("llama", "float32"): 1e-5,
}
"""The largest accepted distance from the reference, by family and dtype."""


class ReferenceMemit:
    """MEMIT algorithm 1 with the options ``SMALL``. ``inside``: ``filtered`` acts in the loop over layers.

    ``batches`` are made one after another.
    """

    batches: ClassVar[Sequence[Sequence[Edit]]] = (FOUR_MOVES[:1], FOUR_MOVES[1:3], FOUR_MOVES[3:])
    inside: ClassVar[bool] = True
    settings: ClassVar[TargetSettings] = TargetSettings(
        layer=2, steps=5, lr=0.5, kl=0.0625, weight_decay=0.5, clamp=0.75
    )

    def __init__(self, family: Family, dtype: str, templates: Sequence[str]) -> None:
        self.model = ReferenceModel(tiny_model(family, dtype=dtype), family, templates)
        tokens, longest = int(SMALL["tokens"]), int(SMALL["document_length"])
        self.covariances = {layer: self.model.covariance(layer, tokens, longest).double() for layer in LAYERS}
        self.originals = {layer: self.weight(layer) for layer in LAYERS}

    def weight(self, layer: int) -> Tensor:
        """Return a copy of the current weight, float64 [d, f]."""
        return self.model.weight(layer).double()

    def add(self, layer: int, update: Tensor) -> None:
        """Add an update [d, f], rounded to the model's dtype."""
        self.model.add(layer, update.to(self.model.weight(layer).dtype))

    def batch(self, edits: Sequence[Edit]) -> dict[int, Tensor]:
        """Make a batch of edits in addition to the earlier ones. Return the weight of each layer, float64 [d, f]."""
        z = torch.stack([self.target(edit) for edit in edits], 1)
        before = {layer: self.model.weight(layer) for layer in LAYERS}
        updates: dict[int, Tensor] = {}
        for place, layer in enumerate(LAYERS):
            keys, now = self.keys(edits, layer), torch.stack([self.state(edit) for edit in edits], 1)
            residual = (z - now) / (len(LAYERS) - place)
            solved = residual @ keys.T @ torch.linalg.inv(self.normal(layer, keys))
            updates[layer] = self.filtered(layer, solved) if self.inside else solved
            self.add(layer, updates[layer])
        if not self.inside:
            for layer in LAYERS:
                self.model.put(layer, before[layer])
                self.add(layer, self.filtered(layer, updates[layer]))
        self.finish(edits)
        return {layer: self.final(layer) for layer in LAYERS}

    def keys(self, edits: Sequence[Edit], layer: int) -> Tensor:
        """Return K on the current model, float64 [f, N]."""
        return torch.stack([self.model.grouped_key(edit, layer).double() for edit in edits], 1)

    def state(self, edit: Edit) -> Tensor:
        """Return the output of the last edited block, float64 [d]."""
        return self.model.state(edit, LAYERS[-1]).double()

    def target(self, edit: Edit) -> Tensor:
        """Return z, float64 [d]."""
        return self.model.target(edit, LAYERS[-1], self.settings, mlp=False).z.double()

    def normal(self, layer: int, keys: Tensor) -> Tensor:
        """Return the normal matrix lambda C + K K^T, [f, f]."""
        return float(SMALL["mom2_weight"]) * self.covariances[layer] + keys @ keys.T

    def filtered(self, layer: int, update: Tensor) -> Tensor:
        """Return what is written of a solved update, [d, f]. The weight is the one before the update."""
        return update

    def finish(self, edits: Sequence[Edit]) -> None:
        """Update the state after a batch."""

    def final(self, layer: int) -> Tensor:
        """Return the weight that the edited model has after the batch, [d, f]."""
        return self.weight(layer)


def distances(
    name: str,
    reference: type[ReferenceMemit],
    family: Family,
    dtype: str,
    root: Path,
    options: Mapping[str, str] = MappingProxyType({}),
) -> list[float]:
    """Return the distances of the editor ``name`` from ``reference`` after each of its batches, layer by layer.

    They are relative to the reference's changes of the weights; in float32 to its weights, because a change is the
    difference of rounded numbers.
    """
    session = make_session(tiny_model(family, dtype=dtype), root=root)
    ours = ReferenceModel(session.model, family)
    editor, made = wrapped_editor(name, options), list[dict[int, Tensor]]()
    details: Any = None
    with ExitStack() as active:
        for edits in reference.batches:
            details = active.enter_context(editor.edit(session, edits)).details
            made.append({layer: ours.weight(layer).double() for layer in LAYERS})
    plain = reference(family, dtype, details["templates"])
    found: list[float] = []
    for edits, weights in zip(plain.batches, made, strict=True):
        for layer, expected in plain.batch(edits).items():
            base = plain.originals[layer] if dtype == "float64" else 0
            found.append(float((weights[layer] - expected).norm() / (expected - base).norm()))
    return found
