"""Editor ``pokemqa``: a memory of edits behind a trained scope detector (Gu et al. 2024)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import QUESTION_ENTITIES, SUB_QUESTIONS, Editor, EditorSpec, Trainer, TrainerSpec, hookimpl
from ke_memory import decomposition_option, prompts_option

CITE = (
    "Gu, Zhou, Han, Liu, Wang, Wang: PokeMQA: Programmable knowledge editing for Multi-hop Question Answering. "
    "ACL 2024, https://arxiv.org/abs/2312.15194"
)


@frozen(kw_only=True)
class PokemqaConfig:
    """The paper's loop and detector; where ours differ from the released ones, ``loop`` and ``profile`` say which."""

    detector: Literal["trained", "nearest"] = field(
        default="trained",
        metadata={
            "help": "what says whether an edit answers a sub-question: trained = the two-stage scope detector of "
            "ke train pokemqa; nearest = the nearest statement, if its score reaches the threshold"
        },
    )
    profile: Literal["small", "published"] = field(
        default="small",
        metadata={
            "help": "the trained detector: small = on vectors of a frozen encoder, a minute on a processor; "
            "published = two distilbert-base-cased, fine-tuned as a whole"
        },
    )
    encoder: str | None = field(
        default=None,
        metadata={
            "help": "sentence encoder of the memory; derived: minilm-l6 (small), distilbert-base-cased (published)",
            "derived": True,
            "file": True,
        },
    )
    checkpoint: str = field(
        default="",
        metadata={
            "help": "folder that ke train pokemqa wrote; empty: the one in the cache for this encoder and profile",
            "file": True,
        },
    )
    threshold: float | None = field(
        default=None,
        metadata={
            "help": "detector=nearest: least score of a fact; derived: 0.67 for minilm-l6 (best on half of CF-3k)",
            "derived": True,
        },
    )
    loop: Literal["fixed", "published"] = field(
        default="fixed",
        metadata={
            "help": "fixed = a turn ends with its first step, the prompt looks alike with and without an edit; "
            "published = a turn is read from its end, and without an edit the label lacks its colon"
        },
    )
    decomposition: Literal["model", "oracle"] = decomposition_option(
        "who takes questions apart: the model, or the dataset (gold material: sub-questions and the "
        "answers before editing), so that only the detector and reading on from an edit are left"
    )
    knowledge: Literal["none", "dataset"] = field(
        default="none",
        metadata={
            "help": "the knowledge prompt, a line on the question's key entity: none, or the dataset's (gold material: "
            "the head of the question's chain)"
        },
    )
    max_calls: int = field(default=5, validator=validators.ge(1), metadata={"help": "model calls for one question"})
    max_tokens: int = field(
        default=200, validator=validators.ge(1), metadata={"help": "tokens that one call may generate"}
    )
    prompts: str = prompts_option(
        "worked examples: own, dataset (those it brings), or a folder with plain.txt and, for the "
        "knowledge prompt, knowledge.txt",
        "dataset",
    )


def build(config: PokemqaConfig) -> Editor:
    """The method of that configuration."""
    from ke_plugin_pokemqa.editor import Pokemqa  # noqa: PLC0415  built late

    return Pokemqa(config)


def build_trainer(config: PokemqaConfig) -> Trainer:
    """The trainer; imports torch."""
    from ke_plugin_pokemqa.training import ScopeTrainer  # noqa: PLC0415  built late

    return ScopeTrainer(config)


def oracle(config: PokemqaConfig) -> tuple[str, ...]:
    """Gold material, only where it is asked for (V16)."""
    hops = (SUB_QUESTIONS,) if config.decomposition == "oracle" else ()
    return (*hops, QUESTION_ENTITIES) if config.knowledge == "dataset" else hops


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``pokemqa``."""
    return [
        EditorSpec(
            name="pokemqa",
            summary="facts in a memory behind a trained scope detector, consulted sub-question by sub-question",
            config=PokemqaConfig,
            build=build,
            cite=CITE,
            masks=True,
            own_prompt=True,
            oracle=oracle,
            uses_own_edits=lambda config: config.decomposition == "oracle",
            trainer=TrainerSpec(build=build_trainer, needs_model=False),
        )
    ]
