"""How long a text a model takes, as its configuration says."""

from __future__ import annotations

from typing import Any

NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")


def context_of(module: Any) -> int | None:
    """The most tokens that a text may have; None where the model names no bound (ALiBi).

    A model with LongRoPE is asked up to the length at which its rotary angles change (Phi-3 with 128k: 4,096 tokens):
    transformers turns them for a whole batch, and for what is kept of shorter texts, as soon as one row is longer.
    """
    config = module.config.get_text_config()
    rotary = getattr(config, "rope_parameters", None) or {}
    for own in (rotary, *(kind for kind in rotary.values() if isinstance(kind, dict))):
        if own.get("rope_type") == "longrope":
            return int(own["original_max_position_embeddings"])
    for name in NAMES:
        length = getattr(config, name, None)
        if isinstance(length, int) and length > 0:
            return length
    return None
