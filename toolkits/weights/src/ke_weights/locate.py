"""Shared code of locate-and-edit methods: the targets and the context of an edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from attrs import define, field, frozen

from ke_core.plugin import Edit, ModelFacts, Session, Setting, Settings
from ke_weights.covariance import CovarianceCache, CovarianceSettings, KeyCovariance, has_few_tokens
from ke_weights.edit_targets import EditTargets
from ke_weights.edit_trace import EditTrace
from ke_weights.facts import model_facts
from ke_weights.given_inputs import GivenInputs
from ke_weights.hyperparameters import MultiLayerConfig, SingleLayerConfig, TargetConfig, as_details
from ke_weights.keys import key_rows
from ke_weights.modules import ModuleMap, module_map
from ke_weights.offset_rows import Site
from ke_weights.open_models import OpenModels
from ke_weights.optimize import TargetSettings
from ke_weights.rewrites import as_rewrites, rewrite, unsupported_edits
from ke_weights.subject import encode
from ke_weights.targets import optimized_targets
from ke_weights.templates import context_templates, explicit_templates

ResolveSettings = Callable[[Any, ModelFacts], Mapping[str, Setting]]
Contexts = tuple[tuple[int, int], ...]
MEMIT_CONTEXTS = 5
"""Number of sampled left contexts in MEMIT and its successors."""
ROME_CONTEXTS: Contexts = ((5, 10), (10, 10))
"""ROME's contexts: ten of five tokens, ten of ten."""
CONTEXT_MARGIN = 2  # tokens that a template's period and a merge may add


@frozen(kw_only=True, eq=False)
class LocateContext:
    """Hyperparameters, left contexts and key covariances of the model before its first edit.

    Sequential editing must not compute them again from a model that already holds edits. Published code keeps them too.
    """

    modules: ModuleMap
    layers: tuple[int, ...]
    settings: Settings
    templates: tuple[str, ...]
    covariances: Mapping[int, KeyCovariance]
    config: TargetConfig
    corpus: Mapping[str, Any]
    inputs: GivenInputs
    trace: EditTrace | None

    def __getitem__(self, name: str) -> Any:
        """The value of a hyperparameter."""
        return self.settings[name].value

    def target_settings(self, layer: int, site: Site) -> TargetSettings:
        """Return how targets at ``layer`` are optimized."""
        return TargetSettings(
            layer=layer,
            site=site,
            steps=self["steps"],
            lr=self["lr"],
            kl=self["kl"] if "kl" in self.settings else self.config.kl,
            weight_decay=self["weight_decay"],
            clamp=self["clamp"],
            stop_loss=self.config.stop_loss,
        )

    def edit_targets(
        self,
        session: Session[Any],
        edits: Sequence[Edit],
        settings: TargetSettings,
        upcoming: Callable[[], Sequence[Edit]] = tuple,
    ) -> EditTargets:
        """Return the given targets of ``edits``, or optimize them on the current model, with those of ``upcoming``
        edits.

        Raises UnsupportedEdit and EditFailed.
        """
        rewrites = tuple(rewrite(edit) for edit in edits)
        given = self.inputs.targets_of([edit.id for edit in edits], self.modules, settings.layer)
        return EditTargets(
            rewrites=rewrites,
            targets=tuple(
                given or optimized_targets(session, self.modules, rewrites, self.templates, settings, upcoming)
            ),
            rows=key_rows(session.model.tokenizer, rewrites, self.templates),
        )

    def details(self, norms: Mapping[str, float], edits: Mapping[str, Any]) -> dict[str, Any]:
        """Return how an edit was made, as JSON values, for the record."""
        given = self.inputs.details(list(edits))
        return {
            "hyperparameters": as_details(self.settings),
            "templates": list(self.templates),
            "corpus": dict(self.corpus),
            "relative_update_norms": dict(norms),
            "edits": dict(edits),
        } | ({"inputs": given} if given else {})


@define(eq=False)
class LocateContextCache:
    """Compute the context of a model at its first edit, and keep it while edits of that model are active.

    ``resolve`` derives the hyperparameters. ``layers`` selects the edited layers. ``contexts`` gives the sampled left
    contexts as pairs (tokens, count). ``needs_covariance``: the method needs key covariances. ``inputs`` replace what
    would be computed; ``trace`` records every edit.
    """

    config: TargetConfig
    resolve: ResolveSettings
    layers: Callable[[Settings], tuple[int, ...]]
    contexts: Contexts
    needs_covariance: bool = True
    inputs: GivenInputs = field(factory=GivenInputs, init=False)
    trace: EditTrace | None = field(default=None, init=False)
    covariance_cache: CovarianceCache = field(init=False)
    _open: OpenModels[LocateContext] = field(factory=OpenModels, init=False)

    def __attrs_post_init__(self) -> None:
        self.covariance_cache = CovarianceCache(
            CovarianceSettings(
                corpus=self.config.corpus, tokens=self.config.tokens, document_length=self.config.document_length
            )
        )

    @classmethod
    def multi_layer(cls, config: MultiLayerConfig, resolve: ResolveSettings) -> Self:
        """Return the cache of a method that edits a window of layers."""
        return cls(config, resolve, lambda found: found["layers"].value, ((config.template_length, MEMIT_CONTEXTS),))

    @classmethod
    def single_layer(
        cls,
        config: SingleLayerConfig,
        resolve: ResolveSettings,
        *,
        contexts: Contexts = ROME_CONTEXTS,
        needs_covariance: bool = True,
    ) -> Self:
        """Return the cache of a method that edits one layer."""
        return cls(config, resolve, lambda found: (found["layer"].value,), contexts, needs_covariance)

    def unsupported_edits(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Return edits that cannot be made (no cloze, no object, too long, contradicting), by id with the reason."""
        room = self._room(session)
        return unsupported_edits(edits, session.model.tokenizer, room, needs_subject=True, has_contexts=True)

    @property
    def is_open(self) -> bool:
        """Whether edits are active."""
        return bool(self._open)

    def check_model(self, session: Session[Any]) -> None:
        """Raise a KEError if the model cannot be edited with this configuration. Compute nothing else.

        A model that already holds an edit has been checked before.
        """
        if session.model.module in self._open:
            return
        modules, _settings, layers = self._place(session)
        self._given_templates()
        if self.inputs.covariance:
            self.inputs.require_layers(layers)
        elif self.needs_covariance and self.covariance_cache.missing(session, modules, layers):
            self.covariance_cache.rows(session, modules)

    def open(self, session: Session[Any], edits: Sequence[Edit]) -> AbstractContextManager[LocateContext]:
        """Return the context of the session's model. Nested uses on one model share the outermost context.

        Raises UnsupportedEdit, before anything is computed, for the first edit that cannot be made with the others.
        """
        as_rewrites(edits, session.model.tokenizer, self._room(session), needs_subject=True, has_contexts=True)
        return self._open.opened(session.model.module, lambda: self._make(session))

    def _room(self, session: Session[Any]) -> int:
        """Return how many tokens prompt and target may have after the longest left context."""
        templates = self._given_templates()
        if templates is None:
            longest = max(length for length, _count in self.contexts)
        else:
            longest = max(len(encode(session.model.tokenizer, template)[0]) for template in templates)
        return int(session.model.context) - longest - CONTEXT_MARGIN

    def _place(self, session: Session[Any]) -> tuple[ModuleMap, Settings, tuple[int, ...]]:
        """Return the model's module map, its hyperparameters, and the edited layers."""
        modules = module_map(session.model.module)
        settings = self.resolve(self.config, model_facts(session, modules))
        layers = self.layers(settings)
        modules.check_layers(layers)
        return modules, settings, layers

    def _given_templates(self) -> tuple[str, ...] | None:
        if self.inputs.contexts is not None:
            return self.inputs.contexts
        return None if self.config.templates is None else explicit_templates(self.config.templates)

    def _make(self, session: Session[Any]) -> LocateContext:
        modules, settings, layers = self._place(session)
        templates = self._given_templates() or context_templates(session, lengths=self.contexts)
        covariances, corpus = self._covariances(session, modules, layers) if self.needs_covariance else ({}, {})
        return LocateContext(
            modules=modules,
            layers=layers,
            settings=settings,
            templates=templates,
            covariances=covariances,
            config=self.config,
            corpus=corpus,
            inputs=self.inputs,
            trace=self.trace,
        )

    def _covariances(
        self, session: Session[Any], modules: ModuleMap, layers: tuple[int, ...]
    ) -> tuple[Mapping[int, KeyCovariance], Mapping[str, Any]]:
        if self.inputs.covariance:
            return self.inputs.covariances(modules, layers), {}
        corpus, found = self.covariance_cache.corpus, self.covariance_cache.of(session, modules, layers)
        tokens = min(covariance.tokens for covariance in found.values())
        about = {
            "name": corpus.name,
            "sha256": corpus.sha256,
            "tokens": tokens,
            "tokens_asked": self.config.tokens,
            "tokens_per_dimension": round(tokens / modules.inner, 1),
        }
        warning = has_few_tokens(tokens, modules.inner)
        return found, about | ({"warning": warning} if warning else {})
