"""The context length of a model, from its configuration."""

from __future__ import annotations

from typing import Any

NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")


def context_of(module: Any) -> int | None:
    """Return the maximum number of tokens; None if the model has no limit (ALiBi).

    With LongRoPE, it is the length at which the rotary angles change (Phi-3 with 128k: 4,096 tokens). transformers
    changes them for a whole batch, cached shorter texts included, as soon as one row is longer.
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
