"""Editor ``ike``: the new fact in the prompt, after demonstrations of other edits (Zheng et al. 2023)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import EditorSpec, hookimpl, option
from ke_memory import decomposition_option, encoder_option, prompts_option, sub_questions_material


@frozen(kw_only=True)
class IkeConfig:
    """The paper's context. ``profile`` selects the paper's or EasyEdit's."""

    profile: Literal["paper", "easyedit"] = option(
        "paper = copy, update and retain demonstrations 1:3:4, nearest last, then a copy of the edit; "
        "easyedit = the nearest demonstrations of any kind, nearest first, no copy of the edit",
        "paper",
    )
    k: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(0)),
        metadata={"help": "number of demonstrations; derived: 32 (paper) or 16 (easyedit)", "derived": True},
    )
    facts: Literal["retrieved", "own"] = option(
        "edits shown with a question: retrieved = the nearest active ones, own = those of its own case", "retrieved"
    )
    top: int = option("maximum number of edits shown with a question, with facts=retrieved", 4, validators.ge(1))
    decomposition: Literal["model", "oracle"] = decomposition_option(
        "model = a question is asked as a whole; oracle = the dataset decomposes it (gold material: sub-questions "
        "and their answers before the edits), and each sub-question is asked separately"
    )
    encoder: str = encoder_option("sentence encoder that retrieves edits and demonstrations")
    demonstrations: str = option(
        "own = the records of this package, or a file of JSON lines (see the README)", "own", file=True, words=("own",)
    )
    prompts: str = prompts_option("format of a demonstration: own, or a folder with a demonstration.txt")


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``ike``."""
    return [
        EditorSpec(
            name="ike",
            summary="puts the new fact into the prompt, after demonstrations of other edits",
            config=IkeConfig,
            build="ke_plugin_ike.editor:Ike",
            cite="Zheng et al. 2023, Can We Edit Factual Knowledge by In-Context Learning?",
            masks=True,
            own_prompt=True,
            asked_length=True,
            oracle=sub_questions_material,
            uses_own_edits=lambda config: config.facts == "own" or config.decomposition == "oracle",
            served={"facts": "retrieved"},
        )
    ]
