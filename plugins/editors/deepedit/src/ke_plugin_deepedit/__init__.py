"""Editor ``deepedit``: depth-first search of thoughts with a memory of edits (Wang et al. 2024)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import EditorSpec, hookimpl, option
from ke_memory import decomposition_option, encoder_option, prompts_option, sub_questions_material

PROFILE_FACTS = {"paper": "own", "default": "all"}
"""Default of the option ``facts`` by profile."""


@frozen(kw_only=True)
class DeepEditConfig:
    """The published search. ``profile`` selects the published or the corrected version."""

    profile: Literal["default", "paper"] = option(
        "default = corrected: all active edits, always greedy, a thought ends with its line; "
        "paper = the question's own edits only, an unparsable judgment is repeated twice, sampled",
        "default",
    )
    facts: Literal["all", "own"] | None = field(
        default=None,
        metadata={
            "help": "edits to search: all active ones, or the question's own; derived: own (paper) or all (default)",
            "derived": True,
        },
    )
    decomposition: Literal["model", "oracle"] = decomposition_option(
        "source of the sub-questions: the model, or oracle = the dataset (gold material: sub-questions and their "
        "answers before the edits), which leaves retrieval and the judgments about facts to the method"
    )
    max_calls: int = option("maximum number of model calls per question, including cached ones", 100, validators.ge(1))
    max_tokens: int = option("maximum tokens per thought", 64, validators.ge(1))
    encoder: str = encoder_option()
    prompts: str = prompts_option("worked examples: own, or a folder with the eight files of the README")

    @property
    def own_only(self) -> bool:
        """Whether a question sees the edits of its own case only."""
        return (self.facts or PROFILE_FACTS[self.profile]) == "own"


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``deepedit``."""
    return [
        EditorSpec(
            name="deepedit",
            summary="searches thoughts depth first and replaces them with edits from a memory",
            config=DeepEditConfig,
            build="ke_plugin_deepedit.editor:DeepEdit",
            cite="Wang et al. 2024, DeepEdit: Knowledge Editing as Decoding with Constraints",
            masks=True,
            own_prompt=True,
            oracle=sub_questions_material,
            uses_own_edits=lambda config: config.own_only or config.decomposition == "oracle",
            served={"facts": "all"},
        )
    ]
