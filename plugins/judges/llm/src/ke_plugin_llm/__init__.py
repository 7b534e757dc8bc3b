"""Judges ``llm`` and ``llm-correct``: a language model evaluates thoughts before an answer, or the answer itself."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

from attrs import frozen, validators

from ke_benchmarks import FACT_LABELS, SUPPORT_LABELS
from ke_core.plugin import Judge, JudgeSpec, hookimpl, option

RIGHT, PRE_EDIT, WRONG, ABSTAINED, ANSWER_UNSURE = "right", "pre-edit", "wrong", "abstained", "answer-unsure"


@frozen(kw_only=True)
class LLMConfig:
    """Options: what to label, and the prompts. The temperature is 0."""

    label: Literal["both", "facts", "support"] = option(
        "facts: label for each fact in the thoughts whether the case's facts agree; support: "
        "label whether the thoughts support the answer",
        "both",
    )
    split: Literal["model", "sentences"] = option(
        "how thoughts are split into facts: by the model, or each sentence is a fact", "model"
    )
    prompts: str = option("own, or a folder with split.txt, fact.txt and support.txt", "own", file=True, words=("own",))
    tokens: int = option("maximum tokens of the model for one label", 160, validators.gt(0))
    split_tokens: int = option("maximum tokens of the model for the list of facts", 512, validators.gt(0))


@frozen(kw_only=True)
class CorrectConfig:
    """Options: the prompt. The temperature is 0."""

    prompts: str = option("own, or a folder with correct.txt", "own", file=True, words=("own",))
    tokens: int = option("maximum tokens of the model for one label", 120, validators.gt(0))


def build(config: LLMConfig) -> Judge:
    """Build the judge. Raises BadConfig for unreadable prompts."""
    from ke_plugin_llm.judge import LLMJudge  # noqa: PLC0415  built late

    return LLMJudge.of(config)


def build_correct(config: CorrectConfig) -> Judge:
    """Build the judge ``llm-correct``. Raises BadConfig for an unreadable prompt."""
    from ke_plugin_llm.correct import CorrectnessJudge  # noqa: PLC0415  built late

    return CorrectnessJudge.of(config)


def items() -> str:
    """Return sixty manually labeled items."""
    return (files("ke_plugin_llm") / "items.jsonl").read_text(encoding="utf-8")


def correct_items() -> str:
    """Return sixty manually labeled answers."""
    return (files("ke_plugin_llm") / "correct.jsonl").read_text(encoding="utf-8")


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Register ``llm`` and ``llm-correct``."""
    return [
        JudgeSpec(
            name="llm",
            summary="a model labels the facts in a chain of thought, and whether it supports the answer",
            config=LLMConfig,
            build=build,
            cite="Hua et al. 2024, Propagation and Pitfalls (ReCoE), sections 5.2 and 5.3; the prompts are our own",
            needs_model=True,
            labels={"facts": FACT_LABELS, "support": SUPPORT_LABELS},
            metrics=("fact-recall", "coherence"),
            items=items,
        ),
        JudgeSpec(
            name="llm-correct",
            summary="a model labels answers: right, pre-edit, wrong or abstained",
            config=CorrectConfig,
            build=build_correct,
            cite="Yang et al. 2025, The Mirage of Model Editing (WILD), section 4; the prompt and labels are our own",
            needs_model=True,
            labels={"answer": (RIGHT, PRE_EDIT, WRONG, ABSTAINED, ANSWER_UNSURE)},
            items=correct_items,
        ),
    ]
