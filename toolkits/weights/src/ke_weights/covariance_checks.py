"""What must hold for second moments on disk before an update rests on them."""

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

SYMMETRY = 1e-5  # of the largest element: what float32 products may differ by
SAMPLE_TOKENS = 1024  # of the corpus, with which a model's keys are compared
SAMPLE_FACTOR = 1.4  # that their whitened norm may be off by: keys of another layer are off by 1.6 and more


def faults(one: StoredCovariance, sample: Tensor | None = None) -> list[str]:
    """What is wrong with a statistic, in words; none for a sound one.

    ``sample``: keys [n, f] of its own model, module and corpus, or None if there is no model to take them from.
    Their mean k^T C^-1 k is f over all tokens that C is the mean of, so it must be about f over some of them. The
    plain norm would not do: in many models it is that of the few first tokens, which dwarf the others.
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
        found.append(f"{tokens} tokens are too few for {size} dimensions: {PER_DIMENSION * size} at least")
    if not bool(torch.isfinite(matrix).all()):
        return [*found, "it holds NaN or infinity"]
    if float((matrix - matrix.T).abs().max()) > SYMMETRY * float(matrix.abs().max()):
        found.append("it is not symmetric")
    try:
        factor = cholesky(matrix.double(), "it")
    except EditFailed:
        return [*found, "it is not positive definite: no editor can invert it"]
    return found if sample is None else [*found, *_strange(factor, sample)]


def _strange(factor: Tensor, sample: Tensor) -> list[str]:
    """Whether the sample's keys are not those of the statistic."""
    size = len(factor)
    if sample.shape[1] != size:
        return [f"keys of the model have {sample.shape[1]} elements, it has {size}"]
    white = torch.linalg.solve_triangular(factor, double(sample).cpu().T, upper=False)
    mean = float(white.pow(2).sum(0).mean())
    if size / SAMPLE_FACTOR <= mean <= size * SAMPLE_FACTOR:
        return []
    return [
        f"the model's keys do not fit it: mean k^T C^-1 k is {mean:.4g} over {len(sample)} tokens, not about {size}"
    ]


def comparable(
    every: Sequence[StoredCovariance], session: Session[Any], modules: ModuleMap, corpus: Corpus
) -> dict[Path, Tensor]:
    """Keys [tokens, f] of the corpus's beginning, for each of the model's statistics of that corpus."""
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
    """Keys [tokens, f] of every token of ``rows`` at each layer, in one pass."""
    kept: dict[int, list[Tensor]] = {layer: [] for layer in layers}
    plan = batches([len(row) for row in rows], PASS_TOKENS)
    for batch in progress.track(plan, "keys of a sample", len(plan)):
        ids, mask = padded([rows[at] for at in batch], modules.device)
        see_keys(modules, ids, mask, layers, lambda layer, keys: kept[layer].append(keys))
    return {layer: torch.cat(parts) for layer, parts in kept.items()}
