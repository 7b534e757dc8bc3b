"""Facade for authors of memory editors: sentence encoders, a fact memory, and base classes.

The encoder module is imported on first use: a memory by itself needs neither torch nor transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ke_memory.context import Choice, InContextModel, QuestionContext, before_prompt, one_line, sentence, wording
from ke_memory.editor import MemoryEditedModel, MemoryEditor
from ke_memory.loop import SubQuestionLoop
from ke_memory.memory import FactMemory, best_rows
from ke_memory.second_model import second_session
from ke_memory.sub_questions import HopProcedure, SubQuestionResult, SubQuestionWalk, dataset_sub_questions
from ke_memory.transcript import Transcript, Turn, complete_lines, lookup_step, operations, with_answer, without_period
from ke_plugin_hf.tensor_files import is_intact, read_arrays, write_arrays

if TYPE_CHECKING:
    from ke_memory.encoder import SentenceEncoder, load_encoder


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ke_memory import encoder  # noqa: PLC0415  imports torch and transformers, which takes seconds

    return getattr(encoder, name)


__all__ = [
    "Choice",
    "FactMemory",
    "HopProcedure",
    "InContextModel",
    "MemoryEditedModel",
    "MemoryEditor",
    "QuestionContext",
    "SentenceEncoder",
    "SubQuestionLoop",
    "SubQuestionResult",
    "SubQuestionWalk",
    "Transcript",
    "Turn",
    "before_prompt",
    "best_rows",
    "complete_lines",
    "dataset_sub_questions",
    "is_intact",
    "load_encoder",
    "lookup_step",
    "one_line",
    "operations",
    "read_arrays",
    "second_session",
    "sentence",
    "with_answer",
    "without_period",
    "wording",
    "write_arrays",
]  # fmt: skip
