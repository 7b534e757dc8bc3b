"""From what stands after ``--model`` to a model."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ke_core.errors import ModelUnavailable
from ke_core.plugins.catalog import Catalog, read
from ke_core.plugins.manager import discover
from ke_core.protocols import LanguageModel, Progress
from ke_core.specs import NAME, ModelRequest, ModelSpec

DEFAULT = "hf"


class Reference(NamedTuple):
    """A model as the user names it: ``source:id@revision``."""

    source: str
    id: str
    revision: str | None = None


def parse(reference: str) -> Reference:
    """``source:id@revision``, each part but the id optional.

    Without a source it is a local folder, else a name from ``ke models list``, else a hub id, all of source
    ``hf``. A folder's name may hold ``:`` and ``@``. Raises ModelUnavailable for a name with nothing in it.
    """
    if _is_folder(reference):
        return Reference(DEFAULT, str(Path(reference).expanduser()))
    source, colon, rest = reference.partition(":")
    if not colon or not NAME.match(source) or len(source) == 1:  # one letter is a drive: C:\models\mine
        source, rest = DEFAULT, reference
    if source == DEFAULT and _is_folder(rest):
        return Reference(source, str(Path(rest).expanduser()))
    name, _at, revision = rest.partition("@")
    if not name.strip():
        raise ModelUnavailable(f"no model in {reference!r}", hint="write --model [SOURCE:]ID[@REVISION]")
    return Reference(source, name, revision or None)


def open_model(
    reference: str,
    *,
    catalog: Catalog | None = None,
    dtype: str = "float32",
    device: str = "",
    device_map: str = "",
    chat: bool = False,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> LanguageModel:
    """Load the model; a known one is pulled at its first use.

    ``catalog`` says which sources there are; without it, those of the installed plugins. Raises
    UnknownComponent for a source that no plugin offers, ModelUnavailable for a model that cannot be had.
    """
    named = parse(reference)
    spec = (catalog or read(discover())).spec("model", named.source)
    assert isinstance(spec, ModelSpec)
    names = {model.name for model in spec.known() if model.kind == "language-model"}
    if spec.pull and named.id in names and not named.revision and not Path(named.id).is_dir():
        spec.pull(named.id, progress)  # `build` would, but cannot say how far it is
    request = ModelRequest(
        id=named.id,
        revision=named.revision,
        dtype=dtype,
        device=device,
        device_map=device_map,
        chat=chat,
        trust_remote_code=trust_remote_code,
    )
    return spec.build(request)


def _is_folder(name: str) -> bool:
    return bool(name.strip()) and Path(name).expanduser().is_dir()  # an empty path would be the working folder
