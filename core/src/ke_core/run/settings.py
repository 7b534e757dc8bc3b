"""What an editor's hyperparameters would be for a model, without making an edit."""

from __future__ import annotations

from functools import cache
from typing import Any

from ke_core.errors import BadConfig, NeedsWeights
from ke_core.hyper import ModelFacts, Settings
from ke_core.models.resolve import find
from ke_core.plugins.catalog import Catalog
from ke_core.protocols import Progress
from ke_core.run.components import Chosen
from ke_core.run.session import ModelChoice, open_session
from ke_core.specs import EditorSpec


def settings_for(editor: Chosen, choice: ModelChoice, catalog: Catalog, progress: Progress) -> Settings:
    """The hyperparameters that depend on the model, with their reasons.

    The model's weights are read only where a value depends on them: published values need its shape alone. Raises
    BadConfig for an editor that has no such hyperparameters.
    """
    spec = editor.spec
    if not isinstance(spec, EditorSpec) or spec.settings is None:
        raise BadConfig(
            f"no option of {spec.name} depends on the model", hint=f"ke show editor {spec.name} lists its options"
        )
    source, request = find(choice.reference, choice.how, catalog)

    @cache
    def opened() -> ModelFacts:
        return _facts(choice, catalog, progress)

    if source.shape is None:
        return spec.settings(editor.config, opened())
    return spec.settings(
        editor.config,
        ModelFacts(
            shape=source.shape(request),
            scale=lambda layer: opened().scale(layer),
            trace=lambda: opened().trace(),
        ),
    )


def _facts(choice: ModelChoice, catalog: Catalog, progress: Progress) -> ModelFacts:
    from ke_core.whitebox.facts import model_facts  # noqa: PLC0415  imports torch
    from ke_core.whitebox.modules import find_parts  # noqa: PLC0415  imports torch

    model: Any = choice.load(catalog, progress)
    if not hasattr(model, "module"):
        raise NeedsWeights(
            f"the weights of {model.id} are not here", hint="choose a model that is loaded locally (hf:...)"
        )
    session = open_session(model, seed=0, progress=progress, material={})
    return model_facts(session, find_parts(model.module))
