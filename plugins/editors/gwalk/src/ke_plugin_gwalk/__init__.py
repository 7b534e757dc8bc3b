"""Editor ``gwalk``: edits as a graph of triples that questions are answered from (Zhong et al. 2025)."""

from __future__ import annotations

import math
from typing import Any, Literal

from attrs import Attribute, frozen, validators

from ke_core.plugin import EditorSpec, hookimpl, option
from ke_memory import (
    decomposition_option,
    encoder_option,
    prompts_option,
    sub_questions_material,
    uses_dataset_sub_questions,
)

PAPER, CALIBRATED = "paper", "calibrated"


def _threshold(_instance: object, _attribute: Attribute[str], value: str) -> None:
    if value in (PAPER, CALIBRATED):
        return
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"threshold must be paper, calibrated or a number, not {value!r}")


@frozen(kw_only=True)
class GwalkConfig:
    """Options of the walk. ``profile`` selects a published version or the corrected one."""

    profile: Literal["default", "paper", "algorithm-1"] = option(
        "default = corrected: no sampling, no call whose answer the graph overrules; paper = temperatures, "
        "token limits and parsing of the released code; algorithm-1 = default, with the retrieval of the "
        "paper's algorithm 1 (entities by embedding, relations among their own edges)",
        "default",
    )
    threshold: str = option(
        "minimum score of a relation (profile=algorithm-1: of an entity too): paper (0.845, for "
        "contriever-msmarco only), calibrated (on pairs of wordings, for this encoder) or a number",
        PAPER,
        _threshold,
    )
    encoder: str = encoder_option("sentence encoder of relations and entities")
    aliases: Literal["none", "oracle"] = option(
        "other names of entities: none, or oracle = the benchmark's aliases (they depend on gold answers)", "none"
    )
    decomposition: Literal["model", "oracle"] = decomposition_option(
        "source of the sub-questions: the model, or oracle = the benchmark (gold material: sub-questions and their "
        "answers before the edits); the model names entity and relation of each sub-question"
    )
    max_hops: int = option("maximum number of relations per question", 4, validators.ge(1))
    prompts: str = prompts_option(
        "own, or a folder with subject.txt, relations.txt, question.txt, walk.txt, pairs.txt, names.txt"
    )


def oracle(config: Any) -> tuple[str, ...]:
    """Return the gold material that the options need: aliases and sub-questions depend on answers."""
    return (*(("aliases",) if config.aliases == "oracle" else ()), *sub_questions_material(config))


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``gwalk``."""
    return [
        EditorSpec(
            name="gwalk",
            summary="stores edits as a graph of triples and answers questions by walking it",
            config=GwalkConfig,
            build="ke_plugin_gwalk.editor:Gwalk",
            cite="Zhong et al. 2025, MQuAKE-Remastered: Multi-Hop Knowledge Editing Can Only Be Advanced with "
            "Reliable Evaluations (GWalk, appendix D.1)",
            masks=True,
            needs_subject=True,
            own_prompt=True,
            oracle=oracle,
            uses_own_edits=uses_dataset_sub_questions,
        )
    ]
