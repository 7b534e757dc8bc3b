"""Resolve ``--model`` and load the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from attrs import evolve

from ke_core.plugins.catalog import Catalog, read_catalog
from ke_core.plugins.manager import discover
from ke_core.spec.component import NAME_PATTERN
from ke_core.spec.errors import BadConfig, ModelUnavailable
from ke_core.spec.protocols import LanguageModel, Progress
from ke_core.spec.requests import Generate, Score
from ke_core.spec.runspec import ModelRef
from ke_core.spec.specs import KnownModel, ModelRequest, ModelSpec

DEFAULT_SOURCE = "hf"
DEFAULT_LOADING = ModelRequest(id="")
"""The default way to load a model."""
LOADED = ("dtype", "device", "device_map", "tp", "trust_remote_code")
SERVED = ("base_url",)
"""Settings that are valid for one kind of source only."""


class Reference(NamedTuple):
    """A model as the user names it: ``source:id@revision``."""

    source: str
    id: str
    revision: str | None = None


def parse_reference(reference: str) -> Reference:
    """Parse ``source:id@revision``. Source and revision are optional.

    Without a source, it is a local folder, a name from ``ke models list``, or a hub id, all of source ``hf``. The
    name of a folder may contain ``:`` and ``@``. Raises ModelUnavailable for an empty name.
    """
    if _is_folder(reference):
        return Reference(DEFAULT_SOURCE, str(Path(reference).expanduser()))
    source, colon, rest = reference.partition(":")
    if not colon or not NAME_PATTERN.match(source) or len(source) == 1:  # a single letter is a drive: C:\models\mine
        source, rest = DEFAULT_SOURCE, reference
    if source == DEFAULT_SOURCE and _is_folder(rest):
        return Reference(source, str(Path(rest).expanduser()))
    begin = int(rest.startswith("@") and "/" in rest)  # an id of a server may begin with it: @cf/meta/llama
    name, _at, revision = rest[begin:].partition("@")
    name = rest[:begin] + name
    if not name.strip():
        raise ModelUnavailable(
            f"no model in {reference!r}", hint="write it as [SOURCE:]ID[@REVISION], for example smollm2-135m"
        )
    return Reference(source, name, revision or None)


def known_models(catalog: Catalog) -> dict[str, tuple[ModelSpec, KnownModel]]:
    """Return the models that installed sources know by name, by what is written after ``--model``."""
    specs: list[Any] = [catalog.spec("model", source) for source in catalog.names("model")]
    return {
        model.name if spec.name == DEFAULT_SOURCE else f"{spec.name}:{model.name}": (spec, model)
        for spec in specs
        for model in spec.known()
    }


def find_model(reference: str, how: ModelRequest, catalog: Catalog) -> tuple[ModelSpec, ModelRequest]:
    """Return the source of ``reference``, and ``how`` with the model's id and revision.

    Raises UnknownComponent for an unknown source, ModelUnavailable for an empty name, and BadConfig for settings that
    have no effect for this source.
    """
    named = parse_reference(reference)
    spec = catalog.spec("model", named.source)
    assert isinstance(spec, ModelSpec)
    for setting in LOADED if spec.remote else SERVED:
        if getattr(how, setting) != getattr(DEFAULT_LOADING, setting):
            raise BadConfig(
                f"{setting} is not for {reference}, which is " + ("behind a server" if spec.remote else "loaded here"),
                hint="leave it out" if spec.remote else f"leave it out, or use the model openai:{named.id}",
            )
    return spec, evolve(how, id=named.id, revision=named.revision or how.revision)


def open_model(
    reference: str,
    how: ModelRequest = DEFAULT_LOADING,
    *,
    catalog: Catalog | None = None,
    progress: Progress | None = None,
) -> LanguageModel:
    """Find and load a model. A known model is downloaded at its first use. Raises KEErrors as ``find_model``.

    ``catalog``: by default, that of the installed plugins.
    """
    spec, request = find_model(reference, how, catalog or read_catalog(discover()))
    names = {model.name for model in spec.known() if model.kind == "language-model"}
    if spec.pull and request.id in names and not request.revision and not Path(request.id).is_dir():
        spec.pull(request.id, progress)  # `build` would fetch it too, but without progress
    return spec.build(request)


def _is_folder(name: str) -> bool:
    return bool(name.strip()) and Path(name).expanduser().is_dir()  # an empty path would mean the working folder


NO_MODEL = ModelRef(source="none", id="none")


class NoModel:
    """Refuses every request. It is the model of editors with ``needs_model=False``."""

    id = digest = "none"
    context = 0

    def state(self) -> Mapping[str, object]:
        """Return an empty state, because nothing can change."""
        return {}

    def generate(self, requests: Sequence[Generate | Score]) -> NoReturn:
        """Raise ModelUnavailable."""
        raise ModelUnavailable(f"{len(requests)} requests without a model", hint="set needs_model of the editor")

    score = generate
