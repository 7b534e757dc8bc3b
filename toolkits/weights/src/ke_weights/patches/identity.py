"""The digest of a model's weights, which a patch belongs to."""

from __future__ import annotations

import hashlib
from typing import Any

from torch import nn

from ke_plugin_hf.fingerprint import Checksums


def weights_digest(module: nn.Module) -> str:
    """Return the digest of the weights in a checkpoint of ``module``, reread from memory: 32 hex digits.

    SHA-256 over names, dtypes, shapes and checksums of parameters and saved buffers; a tied tensor counts once. Tables
    computed from the configuration, tokenizer and chat template do not count.
    """
    sums = Checksums().of(module, fresh=True)
    saved = set(module.state_dict())
    tensors: dict[str, Any] = dict(module.named_parameters()) | {n: b for n, b in module.named_buffers() if n in saved}
    text = hashlib.sha256()
    for name in sorted(tensors):
        text.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)} {sums[name]}\n".encode())
    return text.hexdigest()[:32]


def size_of(module: nn.Module) -> int:
    """Return the bytes of the weights as loaded."""
    return sum(tensor.numel() * tensor.element_size() for tensor in module.parameters())
