"""Finding texts by meaning: sentence encoders, and a memory of facts with rows hidden per question.

The encoder is imported when it is first asked for: a memory alone needs neither torch nor transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ke_memory.context import Choice, InContextModel, QuestionContext, before_prompt, sentence
from ke_memory.editor import MemoryEditedModel, MemoryEditor
from ke_memory.memory import FactMemory, best_rows
from ke_memory.names import without_period
from ke_memory.steps import answered, looked_up
from ke_memory.sub_questions import SubQuestionResult, SubQuestionWalk, Way, given_hops
from ke_memory.transcript import Transcript, Turn, operations, unbroken_lines

if TYPE_CHECKING:
    from ke_memory.encoder import SentenceEncoder, load_encoder


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ke_memory import encoder  # noqa: PLC0415  seconds of torch and transformers

    return getattr(encoder, name)


__all__ = [
    "Choice",
    "FactMemory",
    "InContextModel",
    "MemoryEditedModel",
    "MemoryEditor",
    "QuestionContext",
    "SentenceEncoder",
    "SubQuestionResult",
    "SubQuestionWalk",
    "Transcript",
    "Turn",
    "Way",
    "answered",
    "before_prompt",
    "best_rows",
    "given_hops",
    "load_encoder",
    "looked_up",
    "operations",
    "sentence",
    "unbroken_lines",
    "without_period",
]  # fmt: skip
