"""From what stands after ``--model`` to a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from attrs import evolve

from ke_core.plugins.catalog import Catalog, read_catalog
from ke_core.plugins.manager import discover
from ke_core.spec.errors import BadConfig, ModelUnavailable
from ke_core.spec.protocols import LanguageModel, Progress
from ke_core.spec.requests import Generate, Score
from ke_core.spec.runspec import ModelRef
from ke_core.spec.specs import NAME_PATTERN, KnownModel, ModelRequest, ModelSpec

DEFAULT_SOURCE = "hf"
DEFAULT_LOADING = ModelRequest(id="")
"""The usual way to load a model."""
LOADED = ("dtype", "device", "device_map", "trust_remote_code")
SERVED = ("base_url",)
"""Settings that belong to one kind of source; those of a server that have no effect elsewhere do no harm."""


class Reference(NamedTuple):
    """A model as the user names it: ``source:id@revision``."""

    source: str
    id: str
    revision: str | None = None


def parse_reference(reference: str) -> Reference:
    """``source:id@revision``, each part but the id optional.

    Without a source it is a local folder, else a name from ``ke models list``, else a hub id, all of source
    ``hf``. A folder's name may hold ``:`` and ``@``. Raises ModelUnavailable for a name with nothing in it.
    """
    if _is_folder(reference):
        return Reference(DEFAULT_SOURCE, str(Path(reference).expanduser()))
    source, colon, rest = reference.partition(":")
    if not colon or not NAME_PATTERN.match(source) or len(source) == 1:  # one letter is a drive: C:\models\mine
        source, rest = DEFAULT_SOURCE, reference
    if source == DEFAULT_SOURCE and _is_folder(rest):
        return Reference(source, str(Path(rest).expanduser()))
    name, _at, revision = rest.partition("@")
    if not name.strip():
        raise ModelUnavailable(f"no model in {reference!r}", hint="write --model [SOURCE:]ID[@REVISION]")
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
    """The source of ``reference``, and ``how`` with the model's id and revision filled in.

    Raises UnknownComponent for a source that no plugin offers, ModelUnavailable for a reference without a name,
    BadConfig for settings of the other kind of source, which would change nothing in silence.
    """
    named = parse_reference(reference)
    spec = catalog.spec("model", named.source)
    assert isinstance(spec, ModelSpec)
    for setting in LOADED if spec.remote else SERVED:
        if getattr(how, setting) != getattr(DEFAULT_LOADING, setting):
            raise BadConfig(
                f"--{setting.replace('_', '-')} is not for {reference}, which is "
                + ("behind a server" if spec.remote else "loaded here"),
                hint="leave it out" if spec.remote else f"leave it out, or say --model openai:{named.id}",
            )
    return spec, evolve(how, id=named.id, revision=named.revision)


def load(spec: ModelSpec, request: ModelRequest, progress: Progress | None = None) -> LanguageModel:
    """Load it; a known model is pulled at its first use. Raises ModelUnavailable."""
    names = {model.name for model in spec.known() if model.kind == "language-model"}
    if spec.pull and request.id in names and not request.revision and not Path(request.id).is_dir():
        spec.pull(request.id, progress)  # `build` would, but cannot say how far it is
    return spec.build(request)


def open_model(
    reference: str,
    how: ModelRequest = DEFAULT_LOADING,
    *,
    catalog: Catalog | None = None,
    progress: Progress | None = None,
) -> LanguageModel:
    """Find and load in one; without ``catalog``, from the sources of the installed plugins."""
    return load(*find_model(reference, how, catalog or read_catalog(discover())), progress)


def _is_folder(name: str) -> bool:
    return bool(name.strip()) and Path(name).expanduser().is_dir()  # an empty path would be the working folder


NO_MODEL = ModelRef(source="none", id="none")


class NoModel:
    """Refuses every request: an editor whose spec says that it needs no model must not ask one."""

    id = digest = "none"
    context = 0

    def state(self) -> Mapping[str, object]:
        """Nothing can change."""
        return {}

    def generate(self, requests: Sequence[Generate]) -> NoReturn:
        """Raise ModelUnavailable."""
        raise ModelUnavailable(f"{len(requests)} texts were asked of no model", hint="the editor's spec: needs_model")

    def score(self, requests: Sequence[Score]) -> NoReturn:
        """Raise ModelUnavailable."""
        raise ModelUnavailable(f"{len(requests)} scores were asked of no model", hint="the editor's spec: needs_model")
