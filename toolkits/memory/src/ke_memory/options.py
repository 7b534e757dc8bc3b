"""Options that several memory editors share. Imported at registration, so it imports nothing heavy."""

from __future__ import annotations

from typing import Any

from ke_core.plugin import SUB_QUESTIONS, option


def decomposition_option(text: str) -> Any:
    """``decomposition``: the source of the sub-questions, the model or the dataset."""
    return option(text, "model")


def encoder_option(text: str = "sentence encoder of the memory") -> Any:
    """``encoder``: the sentence encoder."""
    return option(text, "minilm-l6", file=True)


def prompts_option(text: str, *words: str) -> Any:
    """``prompts``: a folder with prompt files, or one of ``words`` (besides ``own``)."""
    return option(text, "own", file=True, words=("own", *words))


def uses_dataset_sub_questions(config: Any) -> bool:
    """Return whether the option ``decomposition`` asks for the dataset's sub-questions."""
    return bool(config.decomposition == "oracle")


def sub_questions_material(config: Any) -> tuple[str, ...]:
    """Return the gold material that the option ``decomposition`` needs."""
    return (SUB_QUESTIONS,) if uses_dataset_sub_questions(config) else ()
