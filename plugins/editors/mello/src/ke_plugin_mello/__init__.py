"""Editor ``mello``: edited facts in a memory, consulted sub-question by sub-question (Zhong et al. 2023)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import Editor, EditorSpec, hookimpl


@frozen(kw_only=True)
class MelloConfig:
    """The paper's loop; where the published code and a sound loop differ, ``profile`` says which."""

    profile: Literal["fixed", "paper"] = field(
        default="fixed",
        metadata={
            "help": "paper = 4 model calls, which cannot finish 4 sub-questions, and a turn is read from its end; "
            "fixed = 5 calls, stops at the next example, a turn ends with its first step"
        },
    )
    max_calls: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(1)),
        metadata={"help": "model calls for one question; derived: 4 (paper) or 5 (fixed)", "derived": True},
    )
    max_tokens: int = field(
        default=256, validator=validators.ge(1), metadata={"help": "tokens that one call may generate"}
    )
    encoder: str = field(default="minilm-l6", metadata={"help": "sentence encoder of the memory"})
    prompts: str = field(
        default="own",
        metadata={
            "help": "worked examples: own, dataset (those it brings), or a folder with a decompose.txt",
            "file": True,
        },
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
        )
    ]
