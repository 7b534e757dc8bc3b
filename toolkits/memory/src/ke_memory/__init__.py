"""Toolkit for memory editors: sentence encoders, a fact memory, base classes.

This module holds options and is light. Import everything else from ``ke_memory.plugin``.
"""

from ke_memory.options import (
    asks_for_sub_questions,
    decomposition_option,
    encoder_option,
    prompts_option,
    sub_questions_material,
)

__all__ = [
    "asks_for_sub_questions",
    "decomposition_option",
    "encoder_option",
    "prompts_option",
    "sub_questions_material",
]  # fmt: skip
