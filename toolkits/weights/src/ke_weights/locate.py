"""What locate-and-edit methods share: the ground they stand on, and the spreading of updates over layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Self

import torch
from attrs import define, field, frozen
from torch import Tensor

from ke_core.plugin import Edit, EditFailed, ModelFacts, Session, Setting, Settings, uninterruptible_context
from ke_plugin_hf.decoding.float64 import double
from ke_plugin_hf.guard import LowRank, Patch
from ke_weights.facts import model_facts
from ke_weights.hyperparameters import MultiLayerConfig, SingleLayerConfig, TargetConfig, as_details
from ke_weights.keys import KeyRows, average_keys, key_rows, subject_states
from ke_weights.modules import ModuleMap, module_map
from ke_weights.moments import Moment, Moments, MomentSettings, few
from ke_weights.optimise import Target, ZSettings
from ke_weights.rewrites import Rewrite, as_rewrites, rewrite, unmakeable
from ke_weights.subject import encode
from ke_weights.targets import optimised
from ke_weights.templates import context_templates, explicit_templates

Settle = Callable[[Any, ModelFacts], Mapping[str, Setting]]
Contexts = tuple[tuple[int, int], ...]
MEMIT_CONTEXTS = 5
"""Sampled left contexts of MEMIT and what follows it."""
ROME_CONTEXTS: Contexts = ((5, 10), (10, 10))
"""ROME's: ten of five tokens, ten of ten."""
CONTEXT_MARGIN = 2  # tokens that a template's full stop and a merge may add
Solve = Callable[[int, Tensor, Tensor], LowRank]
"""(layer, keys [f, N], residual [d, N]) to the update of that layer, [d, f]."""


@frozen(kw_only=True, eq=False)
class Wanted:
    """Edits with their targets and the rows that their keys and states are read from."""

    rewrites: tuple[Rewrite, ...]
    targets: tuple[Target, ...]
    rows: KeyRows

    @property
    def z(self) -> Tensor:
        """The targets as columns, float64 [d, N]."""
        return double(torch.stack([target.z for target in self.targets], dim=1))

    def report(self, left: Tensor) -> dict[str, Any]:
        """How each edit's optimisation ended, and how far from z it still is, over |z|; ``left`` [d, N] = z - h."""
        return {
            made.id: {
                "steps": target.steps,
                "loss": target.loss,
                "nll": target.nll,
                "kl": target.kl,
                "change": target.change,
                "missed": float(off) / float(target.z.norm()),
            }
            for made, target, off in zip(self.rewrites, self.targets, left.norm(dim=0), strict=True)
        }


@frozen(kw_only=True, eq=False)
class Ground:
    """The model before its first edit: hyperparameters, left contexts and second moments all belong to it.

    Sequential editing must not take them anew from a model that already holds edits (published code keeps them too).
    """

    modules: ModuleMap
    settings: Settings
    templates: tuple[str, ...]
    moments: Mapping[int, Moment]
    config: TargetConfig
    corpus: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """The value of a hyperparameter."""
        return self.settings[name].value

    def wanted(self, session: Session[Any], edits: Sequence[Edit], layer: int, site: Literal["block", "mlp"]) -> Wanted:
        """What ``edits`` want at ``layer`` of the model as it is now. Raises UnsupportedEdit and EditFailed."""
        settings = ZSettings(
            layer=layer,
            site=site,
            steps=self["steps"],
            lr=self["lr"],
            kl=self.config.kl,
            weight_decay=self["weight_decay"],
            clamp=self["clamp"],
            stop_loss=self.config.stop_loss,
        )
        rewrites = tuple(rewrite(edit) for edit in edits)
        return Wanted(
            rewrites=rewrites,
            targets=tuple(optimised(session, self.modules, rewrites, self.templates, settings)),
            rows=key_rows(session.model.tokenizer, rewrites, self.templates),
        )

    def details(self, norms: Mapping[str, float], edits: Mapping[str, Any]) -> dict[str, Any]:
        """What made an edit, as JSON values, for the record."""
        large = [layer for layer, norm in norms.items() if norm > 1]
        said = f"the update of layer {', '.join(large)} is larger than the weight: the rest of the model will suffer"
        return {
            "hyperparameters": as_details(self.settings),
            "templates": list(self.templates),
            "corpus": dict(self.corpus),
            "relative_update_norms": dict(norms),
            "edits": dict(edits),
        } | ({"warning": said} if large else {})


@define(eq=False)
class Grounds:
    """Makes the ground of a model at its first edit, and keeps it while edits made on it are open.

    ``settle`` derives the hyperparameters, ``layers`` says which of them are edited, ``contexts`` is how many left
    contexts are sampled and how long: pairs of (tokens, count). ``weighs``: second moments are needed.
    """

    config: TargetConfig
    settle: Settle
    layers: Callable[[Settings], tuple[int, ...]]
    contexts: Contexts
    weighs: bool = True
    moments: Moments = field(init=False)
    _open: dict[int, Ground] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.moments = Moments(
            MomentSettings(
                corpus=self.config.corpus,
                tokens=self.config.tokens,
                document_length=self.config.document_length,
            )
        )

    @classmethod
    def spread(cls, config: MultiLayerConfig, settle: Settle) -> Self:
        """Of a method that edits a window of layers."""
        return cls(config, settle, lambda found: found["layers"].value, ((config.template_length, MEMIT_CONTEXTS),))

    @classmethod
    def single(
        cls, config: SingleLayerConfig, settle: Settle, *, contexts: Contexts = ROME_CONTEXTS, weighs: bool = True
    ) -> Self:
        """Of a method that edits one layer."""
        return cls(config, settle, lambda found: (found["layer"].value,), contexts, weighs)

    def unmakeable(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Edits without a cloze or a new object, too long, or contradicting an earlier one, by id with the reason."""
        return unmakeable(edits, session.model.tokenizer, self._room(session), needs_subject=True)

    def look(self, session: Session[Any]) -> None:
        """Raise a KEError for a model that cannot be edited with this configuration, before anything is made of it.

        A model that holds an edit already was looked at.
        """
        if id(session.model.module) in self._open:
            return
        modules, _settings, layers = self._place(session)
        self._given_templates()
        if self.weighs and self.moments.missing(session, modules, layers):
            self.moments.rows(session, modules)

    def under(self, session: Session[Any], edits: Sequence[Edit]) -> AbstractContextManager[Ground]:
        """The ground of the session's model. Nested uses on one model share the outermost one's.

        Raises UnsupportedEdit, before anything is computed, for the first of ``edits`` that cannot be made with the
        others.
        """
        as_rewrites(edits, session.model.tokenizer, self._room(session), needs_subject=True)
        key = id(session.model.module)
        return nullcontext(self._open[key]) if key in self._open else self._kept(key, self._make(session))

    @uninterruptible_context
    def _kept(self, key: int, ground: Ground) -> Iterator[Ground]:
        self._open[key] = ground
        try:
            yield ground
        finally:
            del self._open[key]

    def _room(self, session: Session[Any]) -> int:
        """How many tokens prompt and target may have, behind the longest left context."""
        if self.config.templates is None:
            longest = max(length for length, _count in self.contexts)
        else:
            texts = [encode(session.model.tokenizer, template)[0] for template in self.config.templates]
            longest = max(map(len, texts), default=0)
        return int(session.model.context) - longest - CONTEXT_MARGIN

    def _place(self, session: Session[Any]) -> tuple[ModuleMap, Settings, tuple[int, ...]]:
        """The model taken apart, its hyperparameters, and the layers that are edited."""
        modules = module_map(session.model.module)
        settings = self.settle(self.config, model_facts(session, modules))
        layers = self.layers(settings)
        modules.check_layers(layers)
        return modules, settings, layers

    def _given_templates(self) -> tuple[str, ...] | None:
        return None if self.config.templates is None else explicit_templates(self.config.templates)

    def _make(self, session: Session[Any]) -> Ground:
        modules, settings, layers = self._place(session)
        templates = self._given_templates() or context_templates(session, lengths=self.contexts)
        moments, corpus = self._moments(session, modules, layers) if self.weighs else ({}, {})
        return Ground(
            modules=modules,
            settings=settings,
            templates=templates,
            moments=moments,
            config=self.config,
            corpus=corpus,
        )

    def _moments(
        self, session: Session[Any], modules: ModuleMap, layers: tuple[int, ...]
    ) -> tuple[Mapping[int, Moment], Mapping[str, Any]]:
        corpus, found = self.moments.corpus, self.moments.of(session, modules, layers)
        tokens = min(moment.tokens for moment in found.values())
        about = {
            "name": corpus.name,
            "sha256": corpus.sha256,
            "tokens": tokens,
            "tokens_asked": self.config.tokens,
            "tokens_per_dimension": round(tokens / modules.inner, 1),
        }
        said = few(tokens, modules.inner)
        return found, about | ({"warning": said} if said else {})


def spread(
    weights: Patch, modules: ModuleMap, wanted: Wanted, layers: Sequence[int], solve: Solve
) -> tuple[dict[str, float], Tensor]:
    """Write what is wanted into ``layers``, ascending (MEMIT algorithm 1).

    ::

        for l in layers:  k_i = key at l, on the model with the layers below l edited
                          r_i = (z_i - h_i) / (number of layers from l to the last)
                          W_l += solve(l, K, R)

    h_i is the state at the last of the layers as it is now. Gives each update's norm relative to its weight, and
    z - h afterwards, float64 [d, N]. Raises EditFailed where the numbers go wrong.
    """
    z, top = wanted.z, layers[-1]
    norms: dict[str, float] = {}
    for place, layer in enumerate(layers):
        keys = average_keys(modules, wanted.rows, layer)
        states = double(subject_states(modules, wanted.rows, top))
        residual = ((z.to(states.device) - states) / (len(layers) - place)).to(double(keys).device)
        must_be_finite(wanted.rewrites, layer, keys, residual)
        norms[str(layer)] = write(weights, modules, layer, solve(layer, keys, residual))
    states = double(subject_states(modules, wanted.rows, top))
    return norms, z.to(states.device) - states


def must_be_finite(rewrites: Sequence[Rewrite], layer: int, keys: Tensor, residual: Tensor) -> None:
    """Raise EditFailed, which names the first edit whose key or residual (columns) holds NaN or infinity."""
    fine = keys.isfinite().all(0).to(residual.device) & residual.isfinite().all(0)
    if not bool(fine.all()):
        name = rewrites[int((~fine).nonzero()[0, 0])].id
        raise EditFailed(
            f"the key or the residual of edit {name!r} at layer {layer} holds NaN or infinity",
            hint="load the model with --dtype float32",
        )


def write(weights: Patch, modules: ModuleMap, layer: int, update: LowRank) -> float:
    """Add one layer's update; its Frobenius norm over the weight's. Raises EditFailed where that is not finite.

    An update larger than the weight is made all the same, and said (``Ground.details``): how many edits a model can
    hold is what is measured.
    """
    place = modules.layers[layer]
    size = float(double(place.matrix).norm())
    relative = frobenius(update) / size if size else float("inf")
    if not math.isfinite(relative):
        raise EditFailed(
            f"the update of {place.weight_name} is {relative} times as large as the weight",
            hint="load the model with --dtype float32, or lower clamp",
        )
    weights.add(place.weight_name, update)
    return relative


def frobenius(update: LowRank) -> float:
    """|left right|, without the product: its square is tr(left^T left right right^T)."""
    left, right = double(update.left), double(update.right)
    return float(((left.T @ left) * (right @ right.T)).sum().clamp(min=0).sqrt())
