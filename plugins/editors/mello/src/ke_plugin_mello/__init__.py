"""Editor ``mello``: edits in a memory, used for one sub-question at a time (Zhong et al. 2023)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import EditorSpec, hookimpl, option
from ke_memory import (
    decomposition_option,
    encoder_option,
    prompts_option,
    sub_questions_material,
    uses_dataset_sub_questions,
)


@frozen(kw_only=True)
class MelloConfig:
    """Options of the loop. ``profile`` selects a published version or the corrected one."""

    profile: Literal["default", "paper", "remastered"] = option(
        "default = corrected: 5 calls, stops at the next example, a turn ends with its first step; "
        "paper = the released notebook: 4 model calls (too few for 4 hops), turns parsed from their end, a "
        "misspelled label; remastered = MQuAKE-Remastered's port: 4 calls of 50 tokens, sampled at temperature 1",
        "default",
    )
    decomposition: Literal["model", "oracle"] = decomposition_option(
        "source of the sub-questions: the model, or oracle = the dataset (gold material: sub-questions and their "
        "answers before the edits), which leaves retrieval and the comparison to the method"
    )
    max_calls: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(1)),
        metadata={"help": "maximum number of model calls per question; derived: 5 (default) or 4", "derived": True},
    )
    max_tokens: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(1)),
        metadata={"help": "maximum tokens per call; derived: 50 (remastered) or 256", "derived": True},
    )
    encoder: str = encoder_option()
    prompts: str = prompts_option(
        "worked examples: own, dataset (the examples it provides), or a folder with a decompose.txt", "dataset"
    )


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``mello``."""
    return [
        EditorSpec(
            name="mello",
            summary="decomposes questions and compares each answer with the nearest edit in a memory",
            config=MelloConfig,
            build="ke_plugin_mello.editor:Mello",
            cite="Zhong et al. 2023, MQuAKE: Assessing Knowledge Editing in Language Models via Multi-Hop Questions",
            masks=True,
            own_prompt=True,
            oracle=sub_questions_material,
            uses_own_edits=uses_dataset_sub_questions,
        )
    ]
