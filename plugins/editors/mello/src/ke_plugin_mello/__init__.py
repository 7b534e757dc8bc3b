"""Editor ``mello``: edited facts in a memory, consulted sub-question by sub-question (Zhong et al. 2023)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import Editor, EditorSpec, hookimpl
from ke_memory import (
    asks_for_sub_questions,
    decomposition_option,
    encoder_option,
    prompts_option,
    sub_questions_material,
)


@frozen(kw_only=True)
class MelloConfig:
    """The paper's loop; where the published codes and a sound loop differ, ``profile`` says which."""

    profile: Literal["fixed", "paper", "remastered"] = field(
        default="fixed",
        metadata={
            "help": "paper = the released notebook: 4 model calls, which cannot finish 4 sub-questions, a turn is read "
            "from its end, a misspelled label; remastered = MQuAKE-Remastered's port: 4 calls of 50 tokens, sampled at "
            "temperature 1; fixed = greedy, 5 calls, stops at the next example, a turn ends with its first step"
        },
    )
    decomposition: Literal["model", "oracle"] = decomposition_option(
        "who takes questions apart: the model, or the dataset (gold material: sub-questions and the "
        "answers before editing), so that only retrieving and weighing are left"
    )
    max_calls: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(1)),
        metadata={"help": "model calls for one question; derived: 5 (fixed) or 4", "derived": True},
    )
    max_tokens: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(1)),
        metadata={"help": "tokens that one call may generate; derived: 50 (remastered) or 256", "derived": True},
    )
    encoder: str = encoder_option()
    prompts: str = prompts_option(
        "worked examples: own, dataset (those it brings), or a folder with a decompose.txt", "dataset"
    )


def build(config: MelloConfig) -> Editor:
    """The method of that configuration."""
    from ke_plugin_mello.editor import Mello  # noqa: PLC0415  built late

    return Mello(config=config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``mello``."""
    return [
        EditorSpec(
            name="mello",
            summary="edited facts in a memory, consulted sub-question by sub-question",
            config=MelloConfig,
            build=build,
            cite="Zhong et al. 2023, MQuAKE: Assessing Knowledge Editing in Language Models via Multi-Hop Questions",
            masks=True,
            own_prompt=True,
            oracle=sub_questions_material,
            uses_own_edits=asks_for_sub_questions,
        )
    ]
