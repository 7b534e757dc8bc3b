"""Editor ``ike``: a new fact in the prompt, behind demonstrations of other edits (Zheng et al. 2023)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import Editor, EditorSpec, hookimpl
from ke_memory import decomposition_option, encoder_option, prompts_option, sub_questions_material


@frozen(kw_only=True)
class IkeConfig:
    """The paper's context; where EasyEdit's differs, ``profile`` says which."""

    profile: Literal["paper", "easyedit"] = field(
        default="paper",
        metadata={
            "help": "paper = copy, update and retain 1:3:4, nearest last, then a copy of the edit; "
            "easyedit = the nearest demonstrations of any kind, nearest first, no copy of the edit"
        },
    )
    k: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(0)),
        metadata={"help": "demonstrations in the prompt; derived: 32 (paper) or 16 (easyedit)", "derived": True},
    )
    facts: Literal["retrieved", "own"] = field(
        default="retrieved",
        metadata={"help": "the edits shown with a question: the nearest ones of the memory, or its own case's"},
    )
    top: int = field(
        default=4, validator=validators.ge(1), metadata={"help": "edits shown with a question (facts=retrieved)"}
    )
    decomposition: Literal["model", "oracle"] = decomposition_option(
        "who takes questions apart: nobody (model: a question is asked in one piece), or the dataset (gold "
        "material: sub-questions and the answers before editing), so that each hop is asked as an edit of its own"
    )
    encoder: str = encoder_option("sentence encoder that finds edits and demonstrations")
    demonstrations: str = field(
        default="own",
        metadata={
            "help": "own = records of this package; else a file of JSON lines (see the README)",
            "file": True,
            "words": ("own",),
        },
    )
    prompts: str = prompts_option("how a demonstration reads: own, or a folder with a demonstration.txt")


def build(config: IkeConfig) -> Editor:
    """The method of that configuration."""
    from ke_plugin_ike.editor import Ike  # noqa: PLC0415  built late

    return Ike(config=config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``ike``."""
    return [
        EditorSpec(
            name="ike",
            summary="the new fact in the prompt, behind demonstrations that copy, update and retain",
            config=IkeConfig,
            build=build,
            cite="Zheng et al. 2023, Can We Edit Factual Knowledge by In-Context Learning?",
            masks=True,
            own_prompt=True,
            asked_length=True,
            oracle=sub_questions_material,
            uses_own_edits=lambda config: config.facts == "own" or config.decomposition == "oracle",
            served={"facts": "retrieved"},
        )
    ]
