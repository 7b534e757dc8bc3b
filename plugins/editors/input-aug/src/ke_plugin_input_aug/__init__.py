"""Editor ``input-aug``: counterfactual facts with every question (InputAug, Hua et al. 2024)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import EditorSpec, hookimpl, option
from ke_memory import encoder_option, prompts_option

COUNTERFACTUALS = "counterfactual-facts"
"""Name of the material for ``facts=counterfactuals``: sentences by case."""


@frozen(kw_only=True)
class InputAugConfig:
    """By default the edits of a question's own case are given with it: an upper bound. ReCoE's InputAug is
    ``facts=counterfactuals``.
    """

    mode: Literal["direct", "cot"] = option("answer directly, or after a chain of thought", "direct")
    facts: Literal["oracle", "counterfactuals", "all", "retrieved", "none"] = option(
        "facts given with a question: oracle = the edits of its own case, counterfactuals = the sentences "
        "about the edited world in ReCoE's records, all = all active edits, retrieved = the k nearest to the "
        "question, none = the baseline: the same prompt without facts",
        "oracle",
    )
    k: int = option("number of facts to retrieve, with facts=retrieved", 4, validators.ge(1))
    encoder: str = encoder_option("sentence encoder, with facts=retrieved")
    max_tokens: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(1)),
        metadata={
            "help": "maximum tokens of an answer; derived: 24 (direct) or 200 (cot), or the benchmark's if larger",
            "derived": True,
        },
    )
    prompts: str = prompts_option("instruction and worked examples: own, or a folder with a direct.txt or cot.txt")


def oracle(config: InputAugConfig) -> tuple[str, ...]:
    """Return the gold material that the options need."""
    return (COUNTERFACTUALS,) if config.facts == "counterfactuals" else ()


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``input-aug``."""
    return [
        EditorSpec(
            name="input-aug",
            summary="input augmentation: puts counterfactual facts before every question, an upper bound",
            config=InputAugConfig,
            build="ke_plugin_input_aug.editor:InputAug",
            cite="Hua et al. 2024, Propagation and Pitfalls: Reasoning-based Assessment of Knowledge Editing (ReCoE)",
            masks=True,
            own_prompt=True,
            own_before=True,
            oracle=oracle,
            uses_own_edits=lambda config: config.facts in ("oracle", "counterfactuals"),
            served={"facts": "retrieved"},
        )
    ]
