"""Judge ``llm``: a language model reads what was thought before an answer."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import FACT_LABELS, SUPPORT_LABELS, Judge, JudgeSpec, hookimpl


@frozen(kw_only=True)
class LLMConfig:
    """What is asked, and with which prompts. Everything is asked at temperature 0."""

    asks: Literal["both", "facts", "support"] = field(
        default="both",
        metadata={"help": "facts: of each fact thought of, whether the case's facts agree; support: of the answer"},
    )
    split: Literal["model", "sentences"] = field(
        default="model",
        metadata={"help": "how thoughts become facts: the model takes them apart, or every sentence is one"},
    )
    prompts: str = field(
        default="own",
        metadata={"help": "own, or a folder with split.txt, fact.txt and support.txt", "file": True, "words": ("own",)},
    )
    tokens: int = field(
        default=160, validator=validators.gt(0), metadata={"help": "most tokens the model may write to give one label"}
    )
    split_tokens: int = field(
        default=512, validator=validators.gt(0), metadata={"help": "most tokens the model may write to list the facts"}
    )


def build(config: LLMConfig) -> Judge:
    """The judge of that configuration. Raises BadConfig for prompts that cannot be read."""
    from ke_plugin_llm.judge import LLMJudge  # noqa: PLC0415  built late

    return LLMJudge.of(config)


def items() -> str:
    """Sixty items labeled by hand."""
    return (files("ke_plugin_llm") / "items.jsonl").read_text(encoding="utf-8")


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Offer ``llm``."""
    return [
        JudgeSpec(
            name="llm",
            summary="a model labels the facts of a chain of thought, and says whether they support the answer",
            config=LLMConfig,
            build=build,
            cite="Hua et al. 2024, Propagation and Pitfalls (ReCoE), sections 5.2 and 5.3; the prompts are our own",
            needs_model=True,
            labels={"facts": FACT_LABELS, "support": SUPPORT_LABELS},
            metrics=("fact-recall", "coherence"),
            items=items,
        )
    ]
