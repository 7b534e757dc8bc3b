"""What an editor's hyperparameters would be for a model, without making an edit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from attrs import frozen

from ke_core.errors import BadConfig, KEError, NeedsWeights
from ke_core.hyper import ModelFacts, Settings
from ke_core.model_sources import find_model
from ke_core.plugins.catalog import Catalog
from ke_core.protocols import Editor, Progress, Session
from ke_core.run.components import ResolvedComponent
from ke_core.run.session import ModelChoice, open_session
from ke_core.specs import EditorSpec

FactsOf = Callable[..., ModelFacts | None]
"""The hook ``ke_model_facts``: called with ``session=``."""


@frozen
class ResolvedSettings:
    """``refusal``: why the editor cannot edit the model, where its weights were read; else None."""

    settings: Settings
    refusal: KEError | None


def settings_for(
    editor: ResolvedComponent, choice: ModelChoice, catalog: Catalog, progress: Progress, *, facts_of: FactsOf
) -> ResolvedSettings:
    """The hyperparameters that depend on the model, with their reasons.

    The model's weights are read only where a value depends on them: published values need its shape alone. Raises
    BadConfig for an editor that has no such hyperparameters.
    """
    spec = editor.spec
    if not isinstance(spec, EditorSpec) or spec.settings is None:
        raise BadConfig(
            f"no option of {spec.name} depends on the model", hint=f"ke show editor {spec.name} lists its options"
        )
    source, request = find_model(choice.reference, choice.how, catalog)

    @cache
    def session() -> Session[Any]:
        return _opened(choice, catalog, progress)

    @cache
    def opened() -> ModelFacts:
        found = facts_of(session=session())
        if found is None:
            raise BadConfig(
                f"no installed plugin knows the facts of {choice.reference} that hyperparameters are derived from",
                hint="pip install ke-weights",
            )
        return found

    if source.shape is None:
        facts = opened()
    else:
        facts = ModelFacts(
            shape=source.shape(request),
            scale=lambda layer: opened().scale(layer),
            trace=lambda: opened().trace(),
        )
    found = spec.settings(editor.config, facts)
    read = bool(session.cache_info().currsize)
    return ResolvedSettings(found, _refusal(editor.build(), session()) if read else None)


def _refusal(editor: Editor, session: Session[Any]) -> KEError | None:
    try:
        editor.check(session, ())
    except KEError as refused:
        return refused
    return None


def _opened(choice: ModelChoice, catalog: Catalog, progress: Progress) -> Session[Any]:
    model: Any = choice.load(catalog, progress)
    if not hasattr(model, "module"):
        raise NeedsWeights(
            f"the weights of {model.id} are not here", hint="choose a model that is loaded locally (hf:...)"
        )
    return open_session(model, catalog=catalog, seed=0, progress=progress, material={})
