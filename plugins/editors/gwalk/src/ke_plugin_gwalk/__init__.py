"""Editor ``gwalk``: edits kept as a graph of triples, through which a question is walked (Zhong et al. 2025)."""

from __future__ import annotations

import math
from typing import Any, Literal

from attrs import Attribute, field, frozen, validators

from ke_core.plugin import SUB_QUESTIONS, Editor, EditorSpec, hookimpl
from ke_memory import decomposition_option, encoder_option, prompts_option

PUBLISHED, CALIBRATED = "published", "calibrated"


def _threshold(_instance: object, _attribute: Attribute[str], value: str) -> None:
    if value in (PUBLISHED, CALIBRATED):
        return
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"threshold is published, calibrated or a number, not {value!r}")


@frozen(kw_only=True)
class GwalkConfig:
    """The paper's walk; where the published code and a sound walk differ, ``profile`` says which."""

    profile: Literal["greedy", "paper", "published"] = field(
        default="greedy",
        metadata={
            "help": "greedy = no sampling, no call whose answer the graph overrules; paper = greedy, with entities "
            "found by embedding too and relations among their own edges, as in algorithm 1; published = the released "
            "code's temperatures, token limits and readings"
        },
    )
    threshold: str = field(
        default=PUBLISHED,
        validator=_threshold,
        metadata={
            "help": "least score of a relation (paper: of an entity too) that counts as found: published (0.845, for "
            "contriever-msmarco only), calibrated (on pairs of wordings, for this encoder) or a number of your own"
        },
    )
    encoder: str = encoder_option("sentence encoder of relations and entities")
    aliases: Literal["none", "oracle"] = field(
        default="none",
        metadata={"help": "other names of entities: none, or oracle = the benchmark's, which rest on its answers"},
    )
    decomposition: Literal["model", "oracle"] = decomposition_option(
        "who takes a question apart: the model, or oracle = the benchmark, with the answers from before "
        "the edits; entity and relation of each sub-question are the model's to name"
    )
    max_hops: int = field(
        default=4, validator=validators.ge(1), metadata={"help": "relations that one question may be taken apart into"}
    )
    prompts: str = prompts_option(
        "own, or a folder with subject.txt, relations.txt, question.txt, walk.txt, pairs.txt, names.txt"
    )


def build(config: GwalkConfig) -> Editor:
    """The method of that configuration."""
    from ke_plugin_gwalk.editor import Gwalk  # noqa: PLC0415  built late

    return Gwalk(config=config)


def oracle(config: Any) -> tuple[str, ...]:
    """The benchmark's aliases are made of its answers, and its sub-questions name them (V16)."""
    asked = {"aliases": config.aliases, SUB_QUESTIONS: config.decomposition}
    return tuple(name for name, choice in asked.items() if choice == "oracle")


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``gwalk``."""
    return [
        EditorSpec(
            name="gwalk",
            summary="edits in a memory, a graph of triples through which a question is walked",
            config=GwalkConfig,
            build=build,
            cite="Zhong et al. 2025, MQuAKE-Remastered: Multi-Hop Knowledge Editing Can Only Be Advanced with "
            "Reliable Evaluations (GWalk, appendix D.1)",
            masks=True,
            needs_subject=True,
            own_prompt=True,
            oracle=oracle,
            uses_own_edits=lambda config: config.decomposition == "oracle",
        )
    ]
