"""Editor ``ice``: the edited facts as sentences before every question (Cohen et al. 2024)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen, validators

from ke_core.plugin import EditorSpec, hookimpl, option
from ke_memory import encoder_option, prompts_option


@frozen(kw_only=True)
class IceConfig:
    """Options. The paper edits one fact at a time: use ``--batch 1`` with ``facts`` own or all."""

    facts: Literal["own", "all", "retrieved"] = option(
        "facts shown with a question: own = the edits of its own case, all = all active edits, "
        "retrieved = the k nearest to the question",
        "all",
    )
    k: int = option("number of facts to retrieve, with facts=retrieved", 4, validators.ge(1))
    encoder: str = encoder_option("sentence encoder, with facts=retrieved")
    profile: Literal["default", "paper"] = option(
        "default = the fact as its statement, as released (Imagine that The capital of France is Lima.); "
        "paper = the object first (Imagine that Lima would have been The capital of France.), for clozes that end "
        "in is, are, was or were",
        "default",
    )
    prompts: str = prompts_option("text before the facts: own, or a folder with an opening.txt")


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``ice``."""
    return [
        EditorSpec(
            name="ice",
            summary="in-context editing: puts the edited facts as sentences before every question",
            config=IceConfig,
            build="ke_plugin_ice.editor:Ice",
            cite="Cohen et al. 2024, Evaluating the Ripple Effects of Knowledge Editing in Language Models",
            masks=True,
            uses_own_edits=lambda config: config.facts == "own",
            served={"facts": "retrieved"},
        )
    ]
