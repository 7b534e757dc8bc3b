"""Editor ``pokemqa``: a memory of edits with a trained scope detector (Gu et al. 2024)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import QUESTION_ENTITIES, EditorSpec, TrainerSpec, hookimpl, option
from ke_memory import decomposition_option, prompts_option, sub_questions_material, uses_dataset_sub_questions

CITE = (
    "Gu, Zhou, Han, Liu, Wang, Wang: PokeMQA: Programmable knowledge editing for Multi-hop Question Answering. "
    "ACL 2024, https://arxiv.org/abs/2312.15194"
)


@frozen(kw_only=True)
class PokemqaConfig:
    """Options of loop and detector. ``loop`` and ``profile`` select the published or the corrected version."""

    detector: Literal["trained", "nearest"] = option(
        "how to select the edit that answers a sub-question: trained = the two-stage scope detector of "
        "ke train pokemqa; nearest = the nearest statement, if its score reaches the threshold",
        "trained",
    )
    profile: Literal["default", "paper"] = option(
        "the trained detector: default = on embeddings of a frozen encoder, a minute on a CPU; "
        "paper = two fully fine-tuned distilbert-base-cased",
        "default",
    )
    encoder: str | None = field(
        default=None,
        metadata={
            "help": "sentence encoder of the memory; derived: minilm-l6 (default), distilbert-base-cased (paper)",
            "derived": True,
            "file": True,
        },
    )
    checkpoint: str = option(
        "folder written by ke train pokemqa; empty: the one in the cache for this encoder and profile", "", file=True
    )
    threshold: float | None = field(
        default=None,
        metadata={
            "help": "detector=nearest: minimum score of a fact; derived: 0.67 for minilm-l6 (best on half of CF-3k)",
            "derived": True,
        },
    )
    loop: Literal["default", "paper"] = option(
        "default = corrected: a turn ends with its first step, and the prompt has the same form with and "
        "without an edit; paper = a turn is parsed from its end, and without an edit the label has no colon",
        "default",
    )
    decomposition: Literal["model", "oracle"] = decomposition_option(
        "source of the sub-questions: the model, or oracle = the dataset (gold material: sub-questions and their "
        "answers before the edits), which leaves the detector and naming the entity reached to the method"
    )
    knowledge: Literal["none", "dataset"] = option(
        "the knowledge prompt, a line about the question's key entity: none, or dataset (gold material: "
        "the head of the question's chain)",
        "none",
    )
    max_calls: int = option("maximum number of model calls per question", 5, validators.ge(1))
    max_tokens: int = option("maximum tokens per call", 200, validators.ge(1))
    prompts: str = prompts_option(
        "worked examples: own, dataset (the examples it provides), or a folder with plain.txt and, for the "
        "knowledge prompt, knowledge.txt",
        "dataset",
    )


def oracle(config: PokemqaConfig) -> tuple[str, ...]:
    """Return the gold material that the options need."""
    hops = sub_questions_material(config)
    return (*hops, QUESTION_ENTITIES) if config.knowledge == "dataset" else hops


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``pokemqa``."""
    return [
        EditorSpec(
            name="pokemqa",
            summary="decomposes questions and answers with edits that a trained scope detector selects",
            config=PokemqaConfig,
            build="ke_plugin_pokemqa.editor:Pokemqa",
            cite=CITE,
            masks=True,
            own_prompt=True,
            oracle=oracle,
            uses_own_edits=uses_dataset_sub_questions,
            trainer=TrainerSpec(build="ke_plugin_pokemqa.training:ScopeTrainer", needs_model=False),
        )
    ]
