"""Toolkit for memory editors: sentence encoders, a fact memory, base classes.

This module holds options only and imports quickly. Import everything else from ``ke_memory.plugin``.
"""

from ke_memory.options import (
    decomposition_option,
    encoder_option,
    prompts_option,
    sub_questions_material,
    uses_dataset_sub_questions,
)

__all__ = [
    "decomposition_option",
    "encoder_option",
    "prompts_option",
    "sub_questions_material",
    "uses_dataset_sub_questions",
]  # fmt: skip
