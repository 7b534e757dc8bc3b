"""Which weights a model has: the digest that a patch is tied to."""

from __future__ import annotations

import hashlib
from typing import Any

from torch import nn

from ke_plugin_hf.fingerprint import Checksums


def weights_digest(module: nn.Module) -> str:
    """A name for the weights that a checkpoint of ``module`` holds, read afresh: 32 hex digits.

    SHA-256 over names, dtypes, shapes and checksums of parameters and of the buffers that are saved; a tied tensor
    counts once. Tables that are computed from the configuration, tokenizer and chat template do not count.
    """
    sums = Checksums().of(module, fresh=True)
    saved = set(module.state_dict())
    tensors: dict[str, Any] = dict(module.named_parameters()) | {n: b for n, b in module.named_buffers() if n in saved}
    text = hashlib.sha256()
    for name in sorted(tensors):
        text.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)} {sums[name]}\n".encode())
    return text.hexdigest()[:32]


def size_of(module: nn.Module) -> int:
    """Bytes of the weights as they are loaded."""
    return sum(tensor.numel() * tensor.element_size() for tensor in module.parameters())
