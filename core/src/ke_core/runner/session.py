"""Open the session of an editor: the model, the engine, the caches, the dataset's material."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ke_core.engine.batching import BatchingEngine
from ke_core.engine.cache import CompletionCache
from ke_core.engine.models import DEFAULT_LOADING, DEFAULT_SOURCE, find_model, open_model
from ke_core.plugins.catalog import Catalog
from ke_core.spec.errors import BadConfig
from ke_core.spec.protocols import LanguageModel, Material, Progress, Session
from ke_core.spec.requests import Encoder
from ke_core.spec.runspec import ModelRef
from ke_core.spec.specs import EncoderRequest, ModelRequest
from ke_core.storage.files import ArtifactStore, cache_dir


@frozen(kw_only=True)
class ModelChoice:
    """``--model`` (``[source:]id[@revision]``), and how to load it."""

    reference: str
    how: ModelRequest = DEFAULT_LOADING

    def load(self, catalog: Catalog, progress: Progress) -> LanguageModel:
        """Load the model: seconds, or minutes at the first use. Raises UnknownComponent, ModelUnavailable."""
        return open_model(self.reference, self.how, catalog=catalog, progress=progress)

    def named(self, catalog: Catalog) -> ModelRef:
        """Return the reference of the model without loading it. Its digest is empty, and its address if not given."""
        spec, request = find_model(self.reference, self.how, catalog)
        folder = Path(request.id)
        return ModelRef(
            source=spec.name,
            id=folder.resolve().name if folder.is_dir() else request.id,
            revision=request.revision or "",
            dtype="" if spec.remote else request.dtype,
            chat=request.chat,
            base_url=request.base_url,
        )

    def describe(self, catalog: Catalog, model: LanguageModel) -> ModelRef:
        """Return the reference of the loaded ``model``: a folder by its name, weights by their digest."""
        named = self.named(catalog)
        model.state()  # update the digest
        return evolve(named, digest=model.digest, base_url=getattr(model, "base_url", ""))


def open_session(
    model: LanguageModel,
    *,
    catalog: Catalog,
    seed: int,
    progress: Progress,
    material: Mapping[str, Material],
    remember: bool = True,
) -> Session[Any]:
    """Open a session with the artifacts and encoders of the user's cache, and its completions if ``remember``.

    Processes that hold one model together use no completions: another run could add some between their readings.
    """
    remember = remember and not getattr(model, "split", False)
    completions = CompletionCache(cache_dir() / "completions" / "completions.sqlite") if remember else None
    return Session(
        model=model,
        engine=BatchingEngine(model, seed=seed, cache=completions, progress=progress),
        encoder=cache(partial(_encoder, catalog=catalog, device=str(getattr(model, "device", "")))),
        artifacts=ArtifactStore(cache_dir() / "artifacts"),
        progress=progress,
        seed=seed,
        material=material,
    )


def _encoder(name: str, *, catalog: Catalog, device: str) -> Encoder:
    """Load an encoder onto the model's device, because each process of a shared run has its own accelerator."""
    spec, _, rest = name.partition(":")
    source, request = (spec, rest) if rest and spec in catalog.names("encoder") else (DEFAULT_SOURCE, name)
    encoder: Encoder = catalog.spec("encoder", source).build(EncoderRequest(id=request, device=device))
    return encoder


def allowed(material: Mapping[str, Material], oracle: tuple[str, ...], *, editor: str) -> dict[str, Material]:
    """Return the material without gold answers, and the gold material that the editor's options name.

    Raises BadConfig for a name that the dataset does not provide.
    """
    for name in oracle:
        if name not in material:
            raise BadConfig(
                f"editor {editor} is set to use gold material {name!r}, which the dataset does not have",
                hint=f"the dataset has: {', '.join(material) or 'none'}",
            )
    return {name: piece for name, piece in material.items() if not piece.oracle or name in oracle}
