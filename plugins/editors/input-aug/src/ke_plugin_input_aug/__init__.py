"""Editor ``input-aug``: counterfactual facts given with every question (Hua et al. 2024, InputAug)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import Editor, EditorSpec, hookimpl


@frozen(kw_only=True)
class InputAugConfig:
    """The defaults are ReCoE's: the facts that a question needs are given with it, which is an upper bound."""

    mode: Literal["direct", "cot"] = field(
        default="direct", metadata={"help": "answer at once, or after a chain of thought"}
    )
    facts: Literal["oracle", "all", "retrieved", "none"] = field(
        default="oracle",
        metadata={
            "help": "facts given with a question: oracle = the edits of its own case, all = every edit in force, "
            "retrieved = the k nearest to the question, none = the control: the same prompt without facts"
        },
    )
    k: int = field(default=4, validator=validators.ge(1), metadata={"help": "how many, with facts=retrieved"})
    encoder: str = field(default="minilm-l6", metadata={"help": "sentence encoder, with facts=retrieved", "file": True})
    max_tokens: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(1)),
        metadata={
            "help": "tokens of an answer; derived: 24 (direct) or 200 (cot), the benchmark's if those are more",
            "derived": True,
        },
    )
    prompts: str = field(
        default="own",
        metadata={
            "help": "instruction and worked examples: own, or a folder with a direct.txt or cot.txt",
            "file": True,
            "words": ("own",),
        },
    )


def build(config: InputAugConfig) -> Editor:
    """The method of that configuration."""
    from ke_plugin_input_aug.editor import InputAug  # noqa: PLC0415  built late

    return InputAug(config=config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``input-aug``."""
    return [
        EditorSpec(
            name="input-aug",
            summary="input augmentation: counterfactual facts given with every question, an upper bound",
            config=InputAugConfig,
            build=build,
            cite="Hua et al. 2024, Propagation and Pitfalls: Reasoning-based Assessment of Knowledge Editing (ReCoE)",
            masks=True,
            own_prompt=True,
            own_before=True,
            served={"facts": "retrieved"},
        )
    ]
