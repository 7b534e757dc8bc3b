"""Opening what an editor works with: the model, the engine, the caches, the dataset's material."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.data.runspec import ModelRef
from ke_core.engine.artifacts import ArtifactStore
from ke_core.engine.cache import CompletionCache
from ke_core.engine.engine import Engine
from ke_core.errors import BadConfig
from ke_core.files import cache_dir
from ke_core.plugins.catalog import Catalog
from ke_core.protocols import LanguageModel, Material, Progress, Session
from ke_core.requests import Encoder
from ke_core.specs import ModelRequest, ModelSpec

USUAL_SOURCE = "hf"


@frozen(kw_only=True)
class ModelChoice:
    """``--model`` and how to load it. ``reference`` is ``source:id@revision``.

    Without a source it is a local folder, else a name from ``ke models list``, else a hub id.
    """

    reference: str
    dtype: str = "float32"
    device: str = ""
    device_map: str = ""
    chat: bool = False
    trust_remote_code: bool = False

    def resolve(self, catalog: Catalog) -> tuple[ModelSpec, ModelRequest]:
        """The model source, and what to ask of it. Raises UnknownComponent, BadConfig."""
        source, colon, rest = self.reference.partition(":")
        known = catalog.names("model")
        if not colon or Path(self.reference).exists():
            source, rest = _source_of(self.reference, catalog), self.reference
        elif source not in known:
            catalog.offer("model", source)
        name, at, revision = rest.rpartition("@")
        if not at or Path(rest).exists():
            name, revision = rest, ""
        if not name:
            raise BadConfig(f"bad model {self.reference!r}", hint="write it as [source:]id[@revision]")
        request = ModelRequest(
            id=name,
            revision=revision or None,
            dtype=self.dtype,
            device=self.device,
            device_map=self.device_map,
            chat=self.chat,
            trust_remote_code=self.trust_remote_code,
        )
        spec: ModelSpec = catalog.offer("model", source).spec  # type: ignore[assignment]
        return spec, request

    def load(self, catalog: Catalog) -> LanguageModel:
        """Load it: seconds to minutes. Raises ModelUnavailable."""
        spec, request = self.resolve(catalog)
        return spec.build(request)

    def describe(self, catalog: Catalog, model: LanguageModel) -> ModelRef:
        """What stands for the loaded ``model`` in a run: a folder by its name, its weights by their digest."""
        spec, request = self.resolve(catalog)
        folder = Path(request.id).expanduser()
        model.state()  # so that the digest is of the weights as they are
        return ModelRef(
            source=spec.name,
            id=folder.resolve().name if folder.is_dir() else request.id,
            revision=request.revision or "",
            digest=model.digest,
            dtype=request.dtype,
            chat=request.chat,
        )


def open_session(
    model: LanguageModel, *, seed: int, progress: Progress, material: Mapping[str, Material]
) -> Session[Any]:
    """A session with the completions, artifacts and encoders of the user's cache."""
    completions = CompletionCache(cache_dir() / "completions" / "completions.sqlite")
    return Session(
        model=model,
        engine=Engine(model, seed=seed, cache=completions, progress=progress),
        encoder=cache(_encoder),
        artifacts=ArtifactStore(cache_dir() / "artifacts"),
        progress=progress,
        seed=seed,
        material=material,
    )


def _encoder(name: str) -> Encoder:
    from ke_core.retrieval import load_encoder  # noqa: PLC0415  imports torch; judging and scoring need none

    return load_encoder(name)


def allowed(material: Mapping[str, Material], oracle: tuple[str, ...], *, editor: str) -> dict[str, Material]:
    """The material that rests on no gold, and of the rest what the editor's options ask for by name.

    Raises BadConfig for a name that the dataset does not bring.
    """
    for name in oracle:
        if name not in material:
            raise BadConfig(
                f"editor {editor} is set to use gold material {name!r}, which the dataset does not bring",
                hint=f"the dataset brings: {', '.join(material) or 'none'}",
            )
    return {name: piece for name, piece in material.items() if not piece.oracle or name in oracle}


def _source_of(reference: str, catalog: Catalog) -> str:
    """The source that knows a bare name, unless a folder of that name is here."""
    if not Path(reference).is_dir():
        for name in catalog.names("model"):
            spec = catalog.spec("model", name)
            if isinstance(spec, ModelSpec) and reference in (model.name for model in spec.known()):
                return name
    return USUAL_SOURCE
