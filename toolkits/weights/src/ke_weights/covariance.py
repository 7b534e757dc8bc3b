"""Key covariance (second moment), C = E[k k^T]: the cost of changing the output for typical keys.

It is not centered. It covers all tokens of a text corpus, including the first of each document (MEMIT section 4.2; ROME
section 3.1). One pass computes all layers (``gram``); files on disk store them (``covariance_files``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from attrs import define, evolve, field, frozen
from torch import Tensor

from ke_core.plugin import EditFailed, Session, locked
from ke_plugin_hf.decoding.float64 import double, home
from ke_plugin_hf.tensor_files import is_intact
from ke_weights import covariance_files
from ke_weights.corpus import Corpus, read_corpus
from ke_weights.covariance_files import CovarianceOrigin
from ke_weights.gram import gram_sums, passes
from ke_weights.modules import ModuleMap
from ke_weights.solve import MORE_TOKENS, cholesky
from ke_weights.subject import encode

CPU = torch.device("cpu")
PER_DIMENSION = 2  # tokens per dimension; with fewer, C is practically singular
ENOUGH = 20  # tokens per dimension; with fewer, the small eigenvalues of C are noise


@define(eq=False, slots=False)
class KeyCovariance:
    """C of one layer, float32 (a given one: or float64) [f, f], over ``tokens`` tokens (a given one: 0 if unknown).

    It is stored in CPU memory and used on the layer's ``device``, one layer at a time: the matrices and factors of five
    layers would not leave enough device memory for the model.
    """

    matrix: Tensor
    tokens: int
    device: torch.device = CPU
    _factor: Tensor | None = field(default=None, init=False, repr=False)
    _ridged: dict[float, KeyCovariance] = field(factory=dict, init=False, repr=False)

    def double(self) -> Tensor:
        """C in float64, on its device."""
        return double(self.matrix.to(self.device))

    @property
    def factor(self) -> Tensor:
        """Lower Cholesky factor of C, float64 [f, f], computed at first use. Raises EditFailed for a singular C."""
        if self._factor is None:
            self._factor = cholesky(self.double(), "the key covariance", MORE_TOKENS).to(CPU)
        return self._factor.to(home(self.device))

    def of(self, keys: Tensor) -> KeyCovariance:
        """Return C of a part of the key dimensions (indices), [n, n]; C itself for all of them."""
        if len(keys) == len(self.matrix):
            return self
        at = keys.to(self.matrix.device)
        return KeyCovariance(self.matrix[at][:, at], self.tokens, self.device)

    def plus_ridge(self, ridge: float) -> KeyCovariance:
        """Return C + ridge I, in float64, computed once; C itself without a ridge."""
        if not ridge:
            return self
        if ridge not in self._ridged:
            whole = self.double().cpu().clone()
            whole.diagonal().add_(ridge)
            self._ridged[ridge] = KeyCovariance(whole, self.tokens, self.device)
        return self._ridged[ridge]


@frozen(kw_only=True)
class CovarianceSettings:
    """``corpus`` is the argument of ``read_corpus``, ``tokens`` the number of its tokens to use, in order.

    ``document_length`` is the maximum length of a document, in tokens.
    """

    corpus: str
    tokens: int
    document_length: int


class CovarianceCache:
    """Key covariances, cached in memory and on disk under everything that determines them."""

    def __init__(self, settings: CovarianceSettings) -> None:
        self.settings = settings
        self._known: dict[Path, KeyCovariance] = {}
        self._corpus: Corpus | None = None

    @property
    def corpus(self) -> Corpus:
        """The text, read at first use."""
        if self._corpus is None:
            self._corpus = read_corpus(self.settings.corpus)
        return self._corpus

    def of(self, session: Session[Any], modules: ModuleMap, layers: Sequence[int]) -> dict[int, KeyCovariance]:
        """Return the covariance of each of ``layers``. Compute the missing ones in one pass."""
        paths = self.paths(session, modules, layers)
        wanted = set(paths.values())
        self._known = {
            path: covariance for path, covariance in self._known.items() if path in wanted
        }  # of one model at a time
        unknown = {layer: path for layer, path in paths.items() if path not in self._known}
        self.take(session, modules, [*unknown])
        for layer, path in unknown.items():
            matrix, tokens = covariance_files.load(path)
            self._known[path] = KeyCovariance(matrix, tokens, modules.layers[layer].matrix.device)
        return {layer: self._known[path] for layer, path in paths.items()}

    def paths(self, session: Session[Any], modules: ModuleMap, layers: Sequence[int]) -> dict[int, Path]:
        """Return the file of each of ``layers``, whether it exists or not. Raises KEError for an unknown layer."""
        modules.check_layers(tuple(layers))
        return {layer: _path(session, self._origin(session, modules, layer)) for layer in layers}

    def missing(self, session: Session[Any], modules: ModuleMap, layers: Sequence[int]) -> list[int]:
        """Return those of ``layers`` whose file is missing or damaged. Tell the user about damaged ones."""
        paths = self.paths(session, modules, layers) if layers else {}
        return [layer for layer, path in paths.items() if not is_intact(path)]

    def take(self, session: Session[Any], modules: ModuleMap, layers: Sequence[int]) -> None:
        """Compute and save the missing ones of ``layers``, in one pass or as few as memory allows.

        A killed computation resumes at the next call. Raises EditFailed as ``rows`` does.
        """
        missing = self.missing(session, modules, layers)
        if not missing:
            return
        with ExitStack() as held:
            # Processes that share a run need the same files; they lock them in one order, which prevents deadlocks.
            for path in sorted(self.paths(session, modules, missing).values()):
                held.enter_context(locked(path.with_suffix(".lock")))
            if missing := self.missing(session, modules, missing):
                self._take(session, modules, missing)

    def _take(self, session: Session[Any], modules: ModuleMap, missing: Sequence[int]) -> None:
        rows = self.rows(session, modules)
        count = sum(len(row) for row in rows)
        for group in passes(modules, missing):
            origins = {layer: self._origin(session, modules, layer) for layer in group}
            files = {layer: _path(session, origin) for layer, origin in origins.items()}
            partial = {layer: path.with_suffix(covariance_files.PARTIAL) for layer, path in files.items()}
            sums = gram_sums(modules, rows, partial, session.progress)
            for layer, path in files.items():
                matrix = _finite(sums.pop(layer).div_(count).to(modules.dtype), layer, partial[layer])
                origin = evolve(
                    origins[layer], tokens=count, date=f"{datetime.now(UTC):%Y-%m-%d}", ke_version=version("ke-core")
                )
                covariance_files.save(path, matrix, origin)
                partial[layer].unlink(missing_ok=True)

    def rows(self, session: Session[Any], modules: ModuleMap) -> list[tuple[int, ...]]:
        """Return the token ids of the corpus, one row per document.

        Raises EditFailed for fewer tokens than twice the key dimension: such a C is (nearly) singular, and its inverse
        would ruin the model without an error.
        """
        found = token_rows(session.model.tokenizer, self.corpus.documents, self.settings, session.model.context)
        require_tokens(sum(len(row) for row in found), modules.inner)
        return found

    def _origin(self, session: Session[Any], modules: ModuleMap, layer: int) -> CovarianceOrigin:
        return CovarianceOrigin(
            model_id=session.model.id,
            model_digest=session.model.plain.digest,
            module=modules.layers[layer].projection_name,
            layer=layer,
            corpus=self.corpus.name,
            corpus_sha256=self.corpus.sha256,
            tokens_asked=self.settings.tokens,
            document_length=min(self.settings.document_length, session.model.context),
            dtype=str(modules.dtype),
        )


def require_tokens(count: int, size: int) -> None:
    """Raise EditFailed if ``count`` tokens are too few for C [size, size]."""
    if count < PER_DIMENSION * size:
        raise EditFailed(
            f"the key covariance of {size} dimensions from {count} tokens is singular",
            hint=f"use a corpus and tokens of at least {PER_DIMENSION * size}, better ten times that",
        )


def has_few_tokens(tokens: int, size: int) -> str:
    """Return a warning if C [size, size] is the mean over few tokens, else an empty text."""
    if tokens >= ENOUGH * size:
        return ""
    return (
        f"{tokens:,} tokens are few for a key covariance of {size:,} dimensions ({tokens / size:.1f} per dimension): "
        f"use {ENOUGH} per dimension, {ENOUGH * size:,}"
    )


def token_rows(
    tokenizer: Any, documents: Sequence[str], settings: CovarianceSettings, context: int
) -> list[tuple[int, ...]]:
    """Return ids of the documents in order, each truncated to the longest length, until ``settings.tokens`` tokens."""
    longest = min(settings.document_length, context)
    rows: list[tuple[int, ...]] = []
    left = settings.tokens
    for document in documents:
        row = tuple(encode(tokenizer, document)[0][: min(longest, left)])
        if row:
            rows.append(row)
        left -= len(row)
        if left <= 0:
            break
    return rows


def _path(session: Session[Any], origin: CovarianceOrigin) -> Path:
    return session.artifacts.path(covariance_files.KIND, origin.key, covariance_files.SUFFIX)


def _finite(matrix: Tensor, layer: int, partial: Path) -> Tensor:
    """Return ``matrix``. If it holds NaN, delete the partial sum and raise EditFailed."""
    if bool(torch.isfinite(matrix).all()):
        return matrix
    partial.unlink(missing_ok=True)
    raise EditFailed(
        f"the key covariance of layer {layer} contains NaN or infinity", hint="load the model with --dtype float32"
    )
