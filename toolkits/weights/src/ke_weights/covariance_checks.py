"""Checks of key covariances on disk before an update uses them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ke_core.plugin import BadData, EditFailed, Progress, Session
from ke_plugin_hf.decoding.float64 import double
from ke_weights import covariance_files
from ke_weights.corpus import Corpus
from ke_weights.covariance import PER_DIMENSION, CovarianceSettings, token_rows
from ke_weights.covariance_files import CovarianceOrigin, StoredCovariance
from ke_weights.gram import PASS_TOKENS, see_keys
from ke_weights.modules import ModuleMap
from ke_weights.solve import cholesky
from ke_weights.subject import batches, padded

SYMMETRY = 1e-5  # maximum asymmetry of float32 products, relative to the largest element
SAMPLE_TOKENS = 1024  # of the corpus, to compare a model's keys with
SAMPLE_FACTOR = 1.4  # maximum factor between whitened norms; keys of another layer differ by at least 1.6


def faults(one: StoredCovariance, sample: Tensor | None = None) -> list[str]:
    """Return what is wrong with a covariance; empty for a valid one.

    ``sample``: keys [n, f] of its own model, module and corpus, or None without a model. The mean of k^T C^-1 k over
    all tokens of C is f, so it must be about f over some of them. The plain norm would not work: in many models the few
    first tokens dominate it.
    """
    if isinstance(one.origin, BadData):
        return [one.origin.message.removeprefix(f"{one.path} ")]
    found = [differ] if (differ := covariance_files.disagreement(one.path, one.origin)) else []
    try:
        matrix, tokens = covariance_files.load(one.path)
    except BadData as error:
        return [*found, error.message.removeprefix(f"{one.path} ")]
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1]:
        return [*found, f"its shape is {tuple(matrix.shape)}, not square"]
    size = len(matrix)
    if tokens < PER_DIMENSION * size:
        found.append(f"{tokens} tokens are too few for {size} dimensions: at least {PER_DIMENSION * size} are needed")
    if not bool(torch.isfinite(matrix).all()):
        return [*found, "it contains NaN or infinity"]
    if float((matrix - matrix.T).abs().max()) > SYMMETRY * float(matrix.abs().max()):
        found.append("it is not symmetric")
    try:
        factor = cholesky(matrix.double(), "it")
    except EditFailed:
        return [*found, "it is not positive definite, so editors cannot invert it"]
    return found if sample is None else [*found, *_strange(factor, sample)]


def _strange(factor: Tensor, sample: Tensor) -> list[str]:
    """Return a fault if the sample's keys do not match the covariance."""
    size = len(factor)
    if sample.shape[1] != size:
        return [f"the model's keys have {sample.shape[1]} elements, not {size}"]
    white = torch.linalg.solve_triangular(factor, double(sample).cpu().T, upper=False)
    mean = float(white.pow(2).sum(0).mean())
    if size / SAMPLE_FACTOR <= mean <= size * SAMPLE_FACTOR:
        return []
    return [
        f"the model's keys do not match it: mean k^T C^-1 k is {mean:.4g} over {len(sample)} tokens, not about {size}"
    ]


def comparable(
    every: Sequence[StoredCovariance], session: Session[Any], modules: ModuleMap, corpus: Corpus
) -> dict[Path, Tensor]:
    """Return keys [tokens, f] of the beginning of the corpus, for each of the model's covariances of that corpus."""
    alike: dict[tuple[int, int], dict[Path, int]] = {}
    for one in every:
        made = one.origin
        if isinstance(made, CovarianceOrigin) and made.corpus_sha256 == corpus.sha256:
            cut = (min(made.tokens_asked, SAMPLE_TOKENS), made.document_length)
            alike.setdefault(cut, {})[one.path] = made.layer
    found: dict[Path, Tensor] = {}
    for (tokens, length), layers in alike.items():
        settings = CovarianceSettings(corpus=corpus.name, tokens=tokens, document_length=length)
        rows = token_rows(session.model.tokenizer, corpus.documents, settings, session.model.context)
        keys = _keys(modules, rows, sorted(set(layers.values())), session.progress)
        found |= {path: keys[layer] for path, layer in layers.items()}
    return found


def _keys(
    modules: ModuleMap, rows: Sequence[Sequence[int]], layers: Sequence[int], progress: Progress
) -> dict[int, Tensor]:
    """Return keys [tokens, f] of every token of ``rows`` at each layer, in one pass."""
    kept: dict[int, list[Tensor]] = {layer: [] for layer in layers}
    plan = batches([len(row) for row in rows], PASS_TOKENS)
    for batch in progress.track(plan, "keys of a sample", len(plan)):
        ids, mask = padded([rows[at] for at in batch], modules.device)
        see_keys(modules, ids, mask, layers, lambda layer, keys: kept[layer].append(keys))
    return {layer: torch.cat(parts) for layer, parts in kept.items()}
