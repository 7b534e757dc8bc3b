"""The model source ``hf``. Importing it does not load torch."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ke_core.plugin import LanguageModel, ModelRequest, ModelSpec, ModelUnavailable, Shape
from ke_plugin_hf.known import SOURCES
from ke_plugin_hf.sources import known, pull


def build(request: ModelRequest) -> LanguageModel:
    """Load the model of ``request``: a local folder, a known model (downloaded at first use) or a hub id.

    Raises ModelUnavailable.
    """
    where = _where(request)
    from ke_plugin_hf.loading import load  # noqa: PLC0415  torch and transformers, seconds

    try:
        return load(request, where)
    except ModelUnavailable as error:
        near = get_close_matches(request.id, SOURCES, n=1)
        if where != request.id or not near:
            raise
        raise ModelUnavailable(error.message, hint=f"did you mean {near[0]!r}?", details=error.details) from error


def shape(request: ModelRequest) -> Shape:
    """Return the shape of the model that ``build`` would load, from its configuration. Raises ModelUnavailable."""
    where = _where(request)
    from ke_plugin_hf import loading  # noqa: PLC0415  as above

    return loading.shape(request, where)


def wrap(module: Any, tokenizer: Any, name: str, chat: bool) -> LanguageModel:  # noqa: FBT001  ModelSpec.wrap
    """Use a transformers model that is in memory. Raises ModelUnavailable."""
    from ke_plugin_hf import wrapping  # noqa: PLC0415  as above

    return wrapping.wrap(module, tokenizer, name, chat)


def _where(request: ModelRequest) -> str:
    source = SOURCES.get(request.id)
    if source is None or Path(request.id).is_dir():  # a folder of that name takes precedence
        check_folder(request.id)
        return request.id
    if source.model.kind != "language-model":
        raise ModelUnavailable(
            f"{request.id} is a {source.model.kind.replace('-', ' ')}, not a language model",
            hint=f"language models: {', '.join(m.name for m in known() if m.kind == 'language-model')}, or a hub id",
        )
    if request.revision:
        raise ModelUnavailable(
            f"{request.id} has no revision {request.revision!r}: it is pinned",
            hint=f"use {request.id} without a revision",
        )
    return str(pull(request.id))


def check_folder(where: str) -> None:
    """Raise ModelUnavailable for a folder that is missing, or without a configuration. A hub id has one slash at most.

    Importing torch takes seconds, so the path is checked before.
    """
    folder = Path(where)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelUnavailable(f"no config.json in {where}", hint="pass the folder that save_pretrained wrote")
    elif folder.is_absolute() or where.startswith((".", "~")) or where.count("/") > 1:
        raise ModelUnavailable(
            f"no such folder: {where}", hint="pass a path, a name from 'ke models list', or a hub id"
        )


hf_spec = ModelSpec(
    name="hf",
    summary="any causal language model that transformers loads: a local folder, a known name, a hub id",
    build=build,
    known=known,
    pull=pull,
    shape=shape,
    wrap=wrap,
)
