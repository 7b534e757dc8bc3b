"""MEMIT's algorithm (Meng et al. 2023, algorithm 1).

for each edit:              z_i = argmin of the loss of equation 16, on the unedited model
for l in layers, ascending:
    k_i = key at l          (average over left contexts, on the model with the layers below l edited)
    r_i = (z_i - h_i) / (number of layers from l to the last)      (h_i: state at the last of the layers, now)
    W_l += R K^T (lambda C_l + K K^T)^-1                           (equation 14)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ke_core.plugin import Direct, Edit, Edited, EditFailed, Session
from ke_core.weights import (
    Dense,
    Moments,
    MomentSettings,
    OpenModel,
    Patch,
    Rewrite,
    Target,
    ZSettings,
    average_keys,
    context_templates,
    explicit_templates,
    key_rows,
    module_map,
    optimised,
    rewrite,
    ridge_update,
    state_rms,
    subject_states,
    unmakeable,
)
from ke_plugin_memit import MemitConfig
from ke_plugin_memit.derive import Settings, as_details, derive

CONTEXT_MARGIN = 2  # tokens that a template's full stop and a merge may add


class Memit:
    """Writes a batch of edits into the weights of several layers at once."""

    def __init__(self, config: MemitConfig) -> None:
        self.config = config
        self.moments = Moments(
            MomentSettings(corpus=config.corpus, tokens=config.tokens, document_length=config.document_length)
        )

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Edits without a cloze, without exactly one new object, too long, or contradicting an earlier one."""
        room = session.model.context - self.config.template_length - CONTEXT_MARGIN
        return unmakeable(edits, session.model.tokenizer, room)

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Make ``edits`` together. Raises UnsupportedEdit, and EditFailed where the numbers go wrong."""
        rewrites = [rewrite(edit) for edit in edits]
        if not rewrites:
            yield Direct(session)
            return
        modules = module_map(session.model.module)
        tokenizer = session.model.tokenizer
        settings = derive(self.config, modules, lambda layer: state_rms(modules, tokenizer, layer))
        templates = self._templates(session)
        moments = self.moments.of(session, modules, settings.layers)
        targets = optimised(session, modules, rewrites, templates, self._z_settings(settings))
        rows = key_rows(tokenizer, rewrites, templates)
        z = torch.stack([target.z for target in targets], dim=1).double()

        with session.model.patch() as weights:
            norms: dict[str, float] = {}
            for place, layer in enumerate(settings.layers):
                keys = average_keys(modules, rows, layer)
                remaining = len(settings.layers) - place
                residual = (z - subject_states(modules, rows, settings.layers[-1])) / remaining
                must_be_finite(rewrites, layer, keys, residual)
                update = ridge_update(moments[layer], keys, residual, settings.mom2_weight)
                norms[str(layer)] = add(
                    weights, modules.layers[layer].weight_name, update, modules.layers[layer].matrix
                )
            left = (z - subject_states(modules, rows, settings.layers[-1])).norm(dim=0)
            yield Direct(session, self._details(settings, templates, norms, report(rewrites, targets, left)))

    def _templates(self, session: Session[OpenModel]) -> tuple[str, ...]:
        if self.config.templates is not None:
            return explicit_templates(self.config.templates)
        return context_templates(session, length=self.config.template_length)

    def _z_settings(self, settings: Settings) -> ZSettings:
        return ZSettings(
            layer=settings.layers[-1],
            steps=settings.steps,
            lr=settings.lr,
            kl=self.config.kl,
            weight_decay=settings.weight_decay,
            clamp=settings.clamp,
            stop_loss=self.config.stop_loss,
        )

    def _details(
        self, settings: Settings, templates: Sequence[str], norms: Mapping[str, float], edits: Mapping[str, Any]
    ) -> dict[str, Any]:
        corpus = self.moments.corpus
        return {
            "hyperparameters": as_details(settings),
            "templates": list(templates),
            "corpus": {"name": corpus.name, "sha256": corpus.sha256, "tokens": self.config.tokens},
            "relative_update_norms": dict(norms),
            "edits": dict(edits),
        }


def add(weights: Patch, name: str, update: Tensor, matrix: Tensor) -> float:
    """Add one layer's update; its Frobenius norm over the weight's.

    Raises EditFailed for an update larger than the weight: that is no edit but a ruined model.
    """
    relative = float(update.norm() / matrix.double().norm())
    if not relative <= 1:  # NaN too
        raise EditFailed(
            f"the update of {name} is {relative:.3g} times as large as the weight",
            hint="raise mom2_weight, lower clamp, or take second moments from more tokens",
        )
    weights.add(name, Dense(delta=update))
    return relative


def must_be_finite(rewrites: Sequence[Rewrite], layer: int, keys: Tensor, residual: Tensor) -> None:
    """Raise EditFailed, which names the first edit whose key or residual (columns) holds NaN or infinity."""
    fine = keys.isfinite().all(0) & residual.isfinite().all(0)
    if not bool(fine.all()):
        name = rewrites[int((~fine).nonzero()[0, 0])].id
        raise EditFailed(
            f"the key or the residual of edit {name!r} at layer {layer} holds NaN or infinity",
            hint="load the model with --dtype float32",
        )


def report(rewrites: Sequence[Rewrite], targets: Sequence[Target], left: Tensor) -> dict[str, Any]:
    """How each edit's optimisation ended, and how far its state still is from z, over |z|."""
    return {
        made.id: {
            "steps": target.steps,
            "loss": target.loss,
            "nll": target.nll,
            "kl": target.kl,
            "change": target.change,
            "missed": float(off / target.z.norm()),
        }
        for made, target, off in zip(rewrites, targets, left, strict=True)
    }
