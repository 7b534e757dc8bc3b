"""Finding texts by meaning: sentence encoders, and a memory of facts with rows hidden per question.

The encoder is imported when it is first asked for: a memory alone needs neither torch nor transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ke_memory.context import Choice, InContext, Shown, before_prompt, sentence
from ke_memory.editor import MemoryEdited, MemoryEditor
from ke_memory.given import Given, Hop, Way, given_hops
from ke_memory.memory import FactMemory, best_rows
from ke_memory.names import without_period
from ke_memory.steps import answered, looked_up
from ke_memory.transcript import Transcript, Turn, operations, unbroken_lines
from ke_plugin_hf.tensor_files import is_intact, read_arrays, write_arrays

if TYPE_CHECKING:
    from ke_memory.encoder import SentenceEncoder, load_encoder


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ke_memory.plugin import encoder  # noqa: PLC0415  seconds of torch and transformers

    return getattr(encoder, name)


__all__ = [
    "Choice",
    "FactMemory",
    "Given",
    "Hop",
    "InContext",
    "MemoryEdited",
    "MemoryEditor",
    "SentenceEncoder",
    "Shown",
    "Transcript",
    "Turn",
    "Way",
    "answered",
    "before_prompt",
    "best_rows",
    "given_hops",
    "is_intact",
    "load_encoder",
    "looked_up",
    "operations",
    "read_arrays",
    "sentence",
    "unbroken_lines",
    "without_period",
    "write_arrays",
]  # fmt: skip
