"""The layers that a trace suggests to editors, cached where editors find them. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from ke_core.plugin import Artifacts, BadData, from_json, read_value, to_json, write_value

KIND = "trace"
TRACED = "traced"


@frozen(kw_only=True)
class Suggestion:
    """Layers for editing, ascending, and the reason.

    ``rule`` begins with ``traced`` if the curves of ``facts`` facts determined them, with ``not traced`` if there were
    too few facts or no significant effect: then the layers are those of the model's shape.
    """

    rome_layer: int
    memit_layers: tuple[int, ...]
    rule: str
    facts: int

    @property
    def traced(self) -> bool:
        """Whether the model's own curves determined the layers."""
        return self.rule.startswith(TRACED)


def suggested(artifacts: Artifacts, model_digest: str) -> Suggestion | None:
    """Return the suggestion of the last trace of these weights; None if there is none.

    Raises BadData for a damaged file.
    """
    path = _path(artifacts, model_digest)
    if not path.exists():
        return None
    hint = f"delete {path} and run ke trace again"
    return from_json(read_value(path, hint=hint), Suggestion, of=str(path), error=BadData, hint=hint)


def store(artifacts: Artifacts, model_digest: str, suggestion: Suggestion) -> None:
    """Save ``suggestion`` for this model. Layers from the shape never replace traced ones."""
    known = suggested(artifacts, model_digest)
    if known is None or suggestion.traced or not known.traced:
        write_value(_path(artifacts, model_digest), to_json(suggestion))


def _path(artifacts: Artifacts, model_digest: str) -> Path:
    return artifacts.path(KIND, {"model": model_digest}, ".json")
