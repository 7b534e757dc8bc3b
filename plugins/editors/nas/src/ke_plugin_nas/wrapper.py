"""NAS (Liu et al. 2026).

::

    v*  = v0 + delta                      v0: MLP output at the subject, bare prompt, current model
    v*  = v0                              if |v*| > 2 A: the edit is abandoned
    v*  = A v* / |v*|                     otherwise
    z   = (h - v0) + v*                   h: the state that delta was added to

A is the mean of |v*| over targets of other facts on the original model, without the largest 5%. These targets are
optimized without left contexts, as in the released code; the targets of the edits with them.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import torch
from attrs import evolve, frozen
from torch import Tensor

from ke_core.plugin import BadConfig, Details, Edit
from ke_plugin_nas import NasConfig
from ke_plugin_nas.facts import builtin_facts
from ke_weights.plugin import (
    EditInProgress,
    EditState,
    EditTargets,
    TargetSettings,
    UpdateWrapper,
    double,
    mlp_states,
    read_edits,
    subject_states,
    unsupported_edits,
)

UNUSED = {name: getattr(NasConfig(), name) for name in ("facts", "samples", "drop")}
"""Defaults of the options of the mean, which a given anchor replaces."""


@frozen(kw_only=True)
class Anchor:
    """A, its standard error, and the number of norms in the mean."""

    value: float
    error: float = 0.0
    count: int = 0


class Nas(UpdateWrapper):
    """Wrapper that scales the targets of edits."""

    def __init__(self, config: NasConfig) -> None:
        for name, default in UNUSED.items():
            if config.anchor is not None and getattr(config, name) != default:
                raise BadConfig(
                    f"nas.{name}={getattr(config, name)} has no effect with nas.anchor={config.anchor}",
                    hint="remove one of the two",
                )
        self.config = config
        self.anchors: EditState[Anchor] = EditState()
        self.abandoned: EditState[tuple[str, ...]] = EditState()

    def targets(self, work: EditInProgress, targets: EditTargets, settings: TargetSettings) -> EditTargets:
        """Return the scaled targets."""
        if self.config.anchor == 0:
            return targets
        anchor = self._anchor(work, settings).value
        start, value = places(work, targets, settings)
        scaled, given_up = scale_to(value + targets.z.to(start.device) - start, value, anchor, self.config.limit)
        z = (start - value) + scaled
        names = [one.id for one, gone in zip(targets.rewrites, given_up.tolist(), strict=True) if gone]
        self.abandoned.keep(work, tuple(names))
        return evolve(
            targets,
            targets=tuple(
                evolve(one, z=z[:, at].to(device=one.z.device, dtype=one.z.dtype))
                for at, one in enumerate(targets.targets)
            ),
            abandoned=targets.abandoned | set(names),
        )

    def after(self, work: EditInProgress) -> Details:
        """Report the anchor and the abandoned edits."""
        if self.config.anchor == 0:
            return {}
        anchor = self.anchors.of(work)[-1]
        return {
            "anchor": anchor.value,
            "standard_error": anchor.error,
            "samples": anchor.count,
            "abandoned": list(self.abandoned.of(work)[-1]),
        }

    def _anchor(self, work: EditInProgress, settings: TargetSettings) -> Anchor:
        """Return A; computed at the first edit of a model, before anything is written."""
        known = self.anchors.of(work)
        if known:
            anchor = known[-1]
        elif self.config.anchor is not None:
            anchor = Anchor(value=self.config.anchor)
        else:
            anchor = self._measured(work, settings)
        self.anchors.keep(work, anchor)
        return anchor

    def _measured(self, work: EditInProgress, settings: TargetSettings) -> Anchor:
        bare = evolve(work.context, templates=("{}",))
        targets = bare.edit_targets(work.session, self._facts(work), settings)
        start, value = places(work, targets, settings)
        norms = (value + targets.z.to(start.device) - start).norm(dim=0).sort().values
        kept = norms[: max(1, len(norms) - round(self.config.drop * len(norms)))]
        error = float(kept.std() / len(kept) ** 0.5) if len(kept) > 1 else 0.0
        return Anchor(value=float(kept.mean()), error=error, count=len(kept))

    def _facts(self, work: EditInProgress) -> list[Edit]:
        source = self.config.facts
        every = builtin_facts() if source == "builtin" else [one.edit for one in read_edits(Path(source).expanduser())]
        Random(0).shuffle(every)  # noqa: S311  a sample, not a secret
        tokenizer, room = work.session.model.tokenizer, int(work.session.model.context) // 2
        refused = unsupported_edits(every, tokenizer, room, needs_subject=True)
        found = [edit for edit in every if edit.id not in refused][: self.config.samples]
        if not found:
            raise BadConfig(f"{source} has no edit that nas can use", hint="give edits with a prompt and a subject")
        return found


def places(work: EditInProgress, targets: EditTargets, settings: TargetSettings) -> tuple[Tensor, Tensor]:
    """Return the state that the targets started from, and v0, float64 [d, N] each."""
    modules: Any = work.context.modules
    value = double(mlp_states(modules, targets.rows.bare, settings.layer)).T
    if settings.site != "block":
        return value, value
    return double(subject_states(modules, targets.rows, settings.layer)), value


def scale_to(wanted: Tensor, value: Tensor, anchor: float, limit: float) -> tuple[Tensor, Tensor]:
    """Return v* of norm A (``value`` v0 for abandoned edits), [d, N], and which edits are abandoned."""
    norm = wanted.norm(dim=0)
    given_up = norm > limit * anchor
    return torch.where(given_up, value, wanted * (anchor / norm)), given_up
