"""The detector's two losses, and what is validated (Gu et al. 2024, section 3.2)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

LEAST = 1e-6
"""1 - p is not let below this: log(1 - p) of a negative that equals the edit is minus infinity."""


def scope(edits: Tensor, questions: Tensor) -> Tensor:
    """p(e, q) = exp(-|e - q|^2) of points [..., d]: one half where the squared distance is ln 2."""
    return torch.exp(-(edits - questions).pow(2).sum(-1))


def pre_detector_loss(edits: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """-[log p(e, q+) + mean log(1 - p(e, q-))], the mean over edits [B, d]; positives [B, d], negatives [B, n, d]."""
    near = (edits - positives).pow(2).sum(-1)
    far = (edits[:, None] - negatives).pow(2).sum(-1)
    return (near - (-torch.expm1(-far)).clamp(min=LEAST).log().mean(1)).mean()


def judge_loss(logits: Tensor, *, positives: int, kind: Literal["two-class", "binary"]) -> Tensor:
    """Of logits [n, 2], the first ``positives`` rows in scope, which is class 0.

    ``binary``: as released, where labels of one-hot floats made two independent binary cross-entropies of it.
    """
    labels = (torch.arange(len(logits), device=logits.device) >= positives).long()
    if kind == "two-class":
        return functional.cross_entropy(logits, labels)
    return functional.binary_cross_entropy_with_logits(logits, functional.one_hot(labels, 2).to(logits.dtype))


def merit(own: Tensor, rival: Tensor) -> float:
    """Recall (the own edit above every other) plus block rate (the best other below one half), of [n]; 0 to 2."""
    return float((own > rival).double().mean() + (rival < 0.5).double().mean())
