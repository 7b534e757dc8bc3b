"""Second moments of keys, C = E[k k^T]: how much an update would disturb what the weights already map.

Uncentred, over all tokens of a text corpus, the first of each document included (MEMIT section 4.2; ROME
section 3.1). All layers in one pass, which ends after the highest of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import define, field, frozen
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ke_core.errors import EditFailed
from ke_core.files import write_atomic
from ke_core.protocols import Session
from ke_core.whitebox.corpus import Corpus, read_corpus
from ke_core.whitebox.hooks import Hooks, forward, frozen_module, hidden_in
from ke_core.whitebox.modules import ModuleMap
from ke_core.whitebox.solve import cholesky
from ke_core.whitebox.subject import batches, encode, padded

PASS_TOKENS = 4096  # of one forward pass: a float32 sum over so few is exact enough, longer ones go to float64
PER_DIMENSION = 2  # tokens a dimension below which C is as good as singular


@define(eq=False, slots=False)
class Moment:
    """C of one layer, float32 [f, f], over ``tokens`` tokens."""

    matrix: Tensor
    tokens: int
    _factor: Tensor | None = field(default=None, init=False, repr=False)

    @property
    def factor(self) -> Tensor:
        """Lower Cholesky factor of C, float64 [f, f], made at first use. Raises EditFailed for a singular C."""
        if self._factor is None:
            self._factor = cholesky(self.matrix.double(), "the second moment")
        return self._factor


@frozen(kw_only=True)
class MomentSettings:
    """``corpus`` is ``wordnet`` or a text file; ``tokens`` how many of its tokens, in order;
    ``document_length`` the longest document, in tokens.
    """

    corpus: str
    tokens: int
    document_length: int


class Moments:
    """Second moments, found again in memory, then on disk, by all that determines them (pitfall E7)."""

    def __init__(self, settings: MomentSettings) -> None:
        self.settings = settings
        self._known: dict[Path, Moment] = {}
        self._corpus: Corpus | None = None

    @property
    def corpus(self) -> Corpus:
        """The text, read at first use."""
        if self._corpus is None:
            self._corpus = read_corpus(self.settings.corpus)
        return self._corpus

    def of(self, session: Session[Any], modules: ModuleMap, layers: Sequence[int]) -> dict[int, Moment]:
        """The moment of each of ``layers``; those not known yet are taken in one pass."""
        modules.check_layers(tuple(layers))
        paths = {layer: self._path(session, modules, layer) for layer in layers}
        wanted = {path: layer for layer, path in paths.items()}
        self._known = {path: moment for path, moment in self._known.items() if path in wanted}  # of one model at a time
        for path in wanted:
            if path not in self._known and path.exists():
                self._known[path] = _load(path, modules.device)
        missing = [layer for layer, path in paths.items() if path not in self._known]
        if missing:
            rows = token_rows(session.model.tokenizer, self.corpus.documents, self.settings, session.model.context)
            for layer, moment in second_moments(modules, rows, missing, session).items():
                _save(paths[layer], moment)
                self._known[paths[layer]] = moment
        return {layer: self._known[path] for layer, path in paths.items()}

    def _path(self, session: Session[Any], modules: ModuleMap, layer: int) -> Path:
        key = {
            "model": session.model.digest,
            "module": modules.layers[layer].projection_name,
            "corpus": self.corpus.sha256,
            "tokens": self.settings.tokens,
            "document_length": min(self.settings.document_length, session.model.context),
            "dtype": str(modules.dtype),
            "first_token": "kept",  # BOS, or what stands in its place: published code keeps it
        }
        return session.artifacts.path("moments", key, ".safetensors")


def token_rows(
    tokenizer: Any, documents: Sequence[str], settings: MomentSettings, context: int
) -> list[tuple[int, ...]]:
    """Ids of documents in order, each cut at its longest, until ``settings.tokens`` are reached exactly."""
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


def second_moments(
    modules: ModuleMap, rows: Sequence[Sequence[int]], layers: Sequence[int], session: Session[Any]
) -> dict[int, Moment]:
    """C of each layer over all tokens of ``rows``: one pass, float32 products, a float64 sum.

    Raises EditFailed for fewer tokens than twice the length of a key: such a C is singular or nearly so, and
    its inverse ruins the model without an error.
    """
    count = sum(len(row) for row in rows)
    if count < PER_DIMENSION * modules.inner:
        raise EditFailed(
            f"second moments of {modules.inner} dimensions from {count} tokens are singular",
            hint=f"give a corpus, and tokens, of {PER_DIMENSION * modules.inner} tokens or more, better ten times that",
        )
    sums = {
        layer: torch.zeros(modules.inner, modules.inner, dtype=torch.float64, device=modules.device) for layer in layers
    }
    plan = batches([len(row) for row in rows], PASS_TOKENS)
    for batch in session.progress.track(plan, "second moments", len(plan)):
        ids, mask = padded([rows[at] for at in batch], modules.device)
        _add(modules, ids, mask, sums)
    moments = {layer: Moment((total / count).to(modules.dtype), count) for layer, total in sums.items()}
    for layer, moment in moments.items():
        if not bool(torch.isfinite(moment.matrix).all()):
            raise EditFailed(
                f"second moments of layer {layer} hold NaN or infinity", hint="load the model with --dtype float32"
            )
    return moments


def _add(modules: ModuleMap, ids: Tensor, mask: Tensor, sums: Mapping[int, Tensor]) -> None:
    """Add k k^T of every real token of one batch to the sums."""
    real = mask.bool()
    with frozen_module(modules.module), Hooks() as hooks:
        for layer, total in sums.items():

            def see(args: tuple[Any, ...], kwargs: dict[str, Any], total: Tensor = total) -> None:
                # The maps of some families see [tokens, f], of others [rows, T, f].
                keys = hidden_in(args, kwargs).reshape(*real.shape, -1)[real].to(modules.dtype)
                total += keys.T @ keys

            hooks.before(modules.layers[layer].projection, see)
        hooks.stop_after(modules.layers[max(sums)].projection)
        forward(modules.module, ids, mask)


def _save(path: Path, moment: Moment) -> None:
    tensors = {"moment": moment.matrix.cpu().contiguous()}
    write_atomic(path, lambda new: save_file(tensors, new, metadata={"tokens": str(moment.tokens)}))


def _load(path: Path, device: torch.device) -> Moment:
    with safe_open(path, framework="pt") as found:
        return Moment(found.get_tensor("moment").to(device), int(found.metadata()["tokens"]))
