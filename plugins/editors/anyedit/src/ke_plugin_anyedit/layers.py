"""AnyEdit's algorithm (Jiang et al. 2025, section 4) with AlphaEdit as its base editor.

::

    for each edit:              z_1 .. z_K, one for each window of the answer, at the last of the layers (``editor``)
    for l in layers, ascending:
        K                       keys at the tokens of the z_k of all edits, without left contexts
        R                       (z - h) / (number of layers from l to the last)
        Kp                      keys at all other tokens of the same rows
        W_l += R K^T P (Kp Kp^T P + K K^T P + L2 I)^-1

Kp keeps the outputs at the tokens between the windows. The released code has no keys of earlier batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ke_core.plugin import Details, Edit, ModelFacts, Session, Setting
from ke_plugin_anyedit import AnyEditAlphaEditConfig
from ke_weights.plugin import (
    AnswerStates,
    CovarianceCache,
    CovarianceSettings,
    EditTargets,
    KeyCovariance,
    KeyRows,
    LongAnswerEditor,
    LongAnswers,
    LowRank,
    ModuleMap,
    NullSpace,
    OpenModels,
    SubjectTokens,
    null_space,
    row_keys,
    spread_over_layers,
)

Spaces = Mapping[int, NullSpace]


class AnyEditAlphaEdit(LongAnswerEditor):
    """Editor that writes long answers into several layers, as one state per window.

    Null spaces are those of the model before its first edit, and are kept while edits are active.
    """

    config: AnyEditAlphaEditConfig

    def __init__(
        self, config: AnyEditAlphaEditConfig, resolve: Callable[[Any, ModelFacts], Mapping[str, Setting]]
    ) -> None:
        super().__init__(config, resolve, lambda found: found["layers"].value)
        self._covariances = CovarianceCache(
            CovarianceSettings(corpus=config.corpus, tokens=config.tokens, document_length=config.document_length)
        )
        self._open: OpenModels[Spaces] = OpenModels()
        self._computed: WeakKeyDictionary[KeyCovariance, NullSpace] = WeakKeyDictionary()

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Return the edits that cannot be made. Without edits: also check the text for the key covariance."""
        found = super().check(session, edits)
        if not edits and session.model.module not in self._open:
            modules, settings = self.resolved(session)
            if self._covariances.missing(session, modules, self.layers(settings)):
                self._covariances.rows(session, modules)
        return found

    def write(self, work: LongAnswers) -> Details:
        """Optimize one state for each window, and spread the update over the layers, inside the null space."""
        spaces = self._spaces(work)
        states = work.optimized(window=work["window"], stop_loss=self.config.stop_loss)

        def solve(layer: int, keys: Tensor, residual: Tensor) -> LowRank:
            return spaces[layer].update(keys, residual, [other_keys(work.modules, states, layer)])

        norms, left = spread_over_layers(work.weights, work.modules, as_targets(work, states), work.layers, solve)
        return work.details(norms, states) | {"mean_distance": float(left.norm(dim=0).mean())}

    def _spaces(self, work: LongAnswers) -> Spaces:
        def spaces() -> Spaces:
            covariances = self._covariances.of(work.session, work.modules, work.layers)
            return {layer: self._space(work, layer, covariance) for layer, covariance in covariances.items()}

        return work.closing.enter_context(self._open.opened(work.session.model.module, spaces))

    def _space(self, work: LongAnswers, layer: int, covariance: KeyCovariance) -> NullSpace:
        """Return the null space of a covariance; that of a covariance seen before is not computed again."""
        if covariance not in self._computed:
            self._computed[covariance] = null_space(covariance, layer, work["nullspace_threshold"], work["l2"])
        return self._computed[covariance]


def as_targets(work: LongAnswers, states: Sequence[AnswerStates]) -> EditTargets:
    """Return the states of all windows as targets, one column each; keys are read at their tokens."""
    rewrites = {made.id: made for made in work.rewrites}
    places = [(one, number, at) for one in states for number, at in enumerate(one.positions)]
    rows = tuple(SubjectTokens(one.ids[: at + 1], at) for one, _number, at in places)
    return EditTargets(
        rewrites=tuple(rewrites[one.id] for one, _number, _at in places),
        targets=tuple(one.targets[number] for one, number, _at in places),
        rows=KeyRows(bare=rows, contexts=()),
    )


def other_keys(modules: ModuleMap, states: Sequence[AnswerStates], layer: int) -> Tensor:
    """Return the keys at the tokens that have no state, [f, M]."""
    parts = []
    for keys, one in zip(row_keys(modules, [one.ids for one in states], layer), states, strict=True):
        others = [at for at in range(len(one.ids)) if at not in one.positions]
        parts.append(keys[:, others])
    return torch.cat(parts, dim=1)
