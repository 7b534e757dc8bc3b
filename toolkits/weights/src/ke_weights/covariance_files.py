"""Key covariances on disk: one safetensors file per layer, with its origin in the metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from attrs import asdict, frozen
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ke_core.plugin import BadData, warn
from ke_plugin_hf.tensor_files import KEY
from ke_weights.state_files import load_state, save_state

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


@frozen(kw_only=True)
class StoredCovariance:
    """A covariance on disk."""

    path: Path
    origin: CovarianceOrigin
    size: int


def save(path: Path, matrix: Tensor, origin: CovarianceOrigin) -> None:
    """Write C, [f, f], completely or not at all."""
    save_state(path, {TENSOR: matrix}, {name: str(value) for name, value in asdict(origin).items()})


def load(path: Path) -> tuple[Tensor, int]:
    """Return C, [f, f], and its number of tokens. Raises BadData for a damaged file."""
    tensors, about = load_state(path, hint=AGAIN)
    return tensors[TENSOR], int(about["tokens"])


def load_npz(path: Path) -> tuple[Tensor, int]:
    """Return C, [f, f], and its number of tokens, from a file of ROME's or MEMIT's released code.

    It holds the sum of k k^T as ``mom2.mom2``, and the number of tokens as ``mom2.count``. (``sample_size`` is the
    number of documents.) Raises BadData for any other file.
    """
    try:
        with np.load(path) as found:
            total, count = torch.from_numpy(found["mom2.mom2"]), int(found["mom2.count"])
    except (OSError, TypeError, ValueError, KeyError, EOFError, BadZipFile) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise BadData(
            f"{path} cannot be read as a key covariance: {why}",
            hint="give an .npz file with mom2.mom2 and mom2.count, or an array",
        ) from error
    return total / max(count, 1), count


def origin_of(path: Path) -> CovarianceOrigin:
    """Return the origin in a file's metadata. Raises BadData for any other file."""
    try:
        with safe_open(path, framework="pt") as found:
            about = found.metadata() or {}
        given: Any = {name: int(text) if name in NUMBERS else text for name, text in about.items() if name != KEY}
        return CovarianceOrigin(**given)
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise BadData(f"{path} cannot be read as a key covariance: {why}", hint=AGAIN) from error


def stored(folder: Path) -> list[StoredCovariance]:
    """Return every covariance in ``folder``, ordered by model, corpus and layer. Warn about unreadable files."""
    found = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            found.append(StoredCovariance(path=path, origin=origin_of(path), size=path.stat().st_size))
        except BadData as error:
            warn(error)
    return sorted(found, key=_order)


def _order(one: StoredCovariance) -> tuple[Any, ...]:
    made = one.origin
    return made.model_id, made.model_digest, made.corpus, made.tokens_asked, made.document_length, made.layer
