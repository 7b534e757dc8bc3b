"""Key covariances on disk: one safetensors file per layer, with its origin in the metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import torch
from attrs import asdict, frozen
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ke_core.plugin import BadData, digest, loads, uninterruptible
from ke_plugin_hf.tensor_files import KEY, damage, write_tensors

KIND, SUFFIX, PARTIAL = "moments", ".safetensors", ".partial"
TENSOR = "moment"
AGAIN = "delete it; the next editor, or ke stats compute, computes it again"
NUMBERS = frozenset({"layer", "tokens", "tokens_asked", "document_length"})


@frozen(kw_only=True)
class CovarianceOrigin:
    """Origin of a covariance. A corpus may have fewer ``tokens`` than ``tokens_asked``.

    ``first_token``: whether the first token of a document (often BOS) counts. Published code keeps it.
    """

    model_id: str
    model_digest: str
    module: str
    layer: int
    corpus: str
    corpus_sha256: str
    tokens_asked: int
    document_length: int
    dtype: str
    first_token: str = "kept"  # noqa: S105  not a secret
    tokens: int = 0
    date: str = ""
    ke_version: str = ""

    @property
    def key(self) -> dict[str, Any]:
        """Everything that determines the numbers, and nothing else."""
        return {
            "model": self.model_digest,
            "module": self.module,
            "corpus": self.corpus_sha256,
            "tokens": self.tokens_asked,
            "document_length": self.document_length,
            "dtype": self.dtype,
            "first_token": self.first_token,
        }

    @classmethod
    def read(cls, metadata: dict[str, str], path: Path) -> Self:
        """Parse the metadata of a file. Raises BadData if something is missing."""
        try:
            given: dict[str, Any] = {
                name: int(text) if name in NUMBERS else text for name, text in metadata.items() if name != KEY
            }
            return cls(**given)
        except (TypeError, ValueError) as error:
            raise BadData(f"{path} has no valid origin in its metadata", hint=AGAIN) from error


@frozen(kw_only=True)
class StoredCovariance:
    """A covariance on disk; ``origin`` is the error if it cannot be read."""

    path: Path
    origin: CovarianceOrigin | BadData
    size: int


def save(path: Path, matrix: Tensor, origin: CovarianceOrigin) -> None:
    """Write C, [f, f], completely or not at all."""
    about = {name: str(value) for name, value in asdict(origin).items()}
    write_tensors(path, {TENSOR: matrix.cpu().contiguous()}, about, save_file)


@uninterruptible  # torch raises ValueError if get_tensor is interrupted
def load(path: Path, device: torch.device | str = "cpu") -> tuple[Tensor, int]:
    """Return C, [f, f], and its number of tokens. Raises BadData for a damaged file."""
    try:
        if wrong := damage(path):
            raise ValueError(wrong)  # noqa: TRY301  as the errors of a file that cannot be read
        with safe_open(path, framework="pt") as found:
            # A copy, because safetensors returns a view, which crashes the process if the file shrinks.
            return found.get_tensor(TENSOR).to(device, copy=True), int(found.metadata()["tokens"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error


def origin_of(path: Path) -> CovarianceOrigin:
    """Return the origin in a file's metadata. Raises BadData if it is damaged or missing."""
    try:
        with safe_open(path, framework="pt") as found:
            return CovarianceOrigin.read(found.metadata() or {}, path)
    except (OSError, SafetensorError) as error:
        raise _damaged(path, error) from error


def stored(folder: Path) -> Iterator[StoredCovariance]:
    """Yield every covariance in ``folder``, ordered by model, corpus and layer; unreadable ones last."""
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        try:
            origin: CovarianceOrigin | BadData = origin_of(path)
        except BadData as error:
            origin = error
        found.append(StoredCovariance(path=path, origin=origin, size=path.stat().st_size))
    yield from sorted(found, key=_order)


def disagreement(path: Path, origin: CovarianceOrigin) -> str:
    """Return how a file's metadata, its key file and its name differ; empty if they agree."""
    key_file = path.with_name(f"{path.stem}.key.json")
    try:
        key = loads(key_file.read_bytes())
    except (OSError, ValueError):
        return f"its key file {key_file.name} cannot be read"
    if key != origin.key:
        names = sorted(name for name in {*key, *origin.key} if key.get(name) != origin.key.get(name))
        return f"its metadata and its key file differ in {', '.join(names)}"
    return "" if digest(key)[:32] == path.stem else "its name is not the hash of its key"


def _order(one: StoredCovariance) -> tuple[Any, ...]:
    if isinstance(one.origin, BadData):
        return (1, str(one.path))
    made = one.origin
    return (0, made.model_id, made.model_digest, made.corpus, made.tokens_asked, made.document_length, made.layer)


def _damaged(path: Path, error: Exception) -> BadData:
    why = " ".join(str(error).split()) or type(error).__name__
    return BadData(f"{path} cannot be read as a key covariance: {why}", hint=AGAIN)
