"""Editor ``deepedit``: depth-first decoding of thoughts over a memory of edits (Wang et al. 2024)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import Editor, EditorSpec, hookimpl
from ke_memory import decomposition_option, encoder_option, prompts_option, sub_questions_material

PROFILE_FACTS = {"paper": "own", "fixed": "all"}
"""Which edits a question sees where the option ``facts`` does not say."""


@frozen(kw_only=True)
class DeepEditConfig:
    """The published search; where the published run and a sound one differ, ``profile`` says which."""

    profile: Literal["fixed", "paper"] = field(
        default="fixed",
        metadata={
            "help": "paper = the question's own edits only, an unreadable judgment is asked again twice, sampled; "
            "fixed = every edit in force, greedy throughout, a thought ends with its line"
        },
    )
    facts: Literal["all", "own"] | None = field(
        default=None,
        metadata={
            "help": "edits that are looked through: all in force, or the question's own; "
            "derived: own (paper) or all (fixed)",
            "derived": True,
        },
    )
    decomposition: Literal["model", "oracle"] = decomposition_option(
        "who takes questions apart: the model, or the dataset (gold material: sub-questions and the "
        "answers before editing), so that only retrieving and the judgments on facts are left"
    )
    max_calls: int = field(
        default=100, validator=validators.ge(1), metadata={"help": "model calls for one question, cached ones too"}
    )
    max_tokens: int = field(
        default=64, validator=validators.ge(1), metadata={"help": "tokens that one thought may have"}
    )
    encoder: str = encoder_option()
    prompts: str = prompts_option("worked examples: own, or a folder with the eight files of the README")

    @property
    def own_only(self) -> bool:
        """Whether a question sees the edits of its own case only."""
        return (self.facts or PROFILE_FACTS[self.profile]) == "own"


def build(config: DeepEditConfig) -> Editor:
    """The method of that configuration."""
    from ke_plugin_deepedit.editor import DeepEdit  # noqa: PLC0415  built late

    return DeepEdit(config=config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``deepedit``."""
    return [
        EditorSpec(
            name="deepedit",
            summary="depth-first decoding of thoughts under constraints, over a memory of edits",
            config=DeepEditConfig,
            build=build,
            cite="Wang et al. 2024, DeepEdit: Knowledge Editing as Decoding with Constraints",
            masks=True,
            own_prompt=True,
            oracle=sub_questions_material,
            uses_own_edits=lambda config: config.own_only or config.decomposition == "oracle",
            served={"facts": "all"},
        )
    ]
