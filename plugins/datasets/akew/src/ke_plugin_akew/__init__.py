"""Datasets of AKEW: the same edits as a structured fact, as a text, or as the triplets extracted from the text."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_benchmarks import (
    QUESTION_STYLES,
    SUB_QUESTION,
    Variant,
    answer_end_option,
    atlas_variant,
    data_dir_option,
    max_tokens_option,
    variant_specs,
)
from ke_core.plugin import EFFICACY, PARAPHRASE, PORTABILITY, Dataset, DatasetSpec, hookimpl, option

FAMILY = "akew"
WHOLE_TEXT = "whole-text"
"""The aspect of the edited question if its right answer is the text."""
Form = Literal["text", "fact", "triplets"]
CITE = """@inproceedings{wu2024akew,
  title     = {{AKEW}: Assessing Knowledge Editing in the Wild},
  author    = {Wu, Xiaobao and Pan, Liangming and Wang, William Yang and Luu, Anh Tuan},
  booktitle = {Proceedings of the 2024 Conference on Empirical Methods in Natural Language Processing},
  year      = {2024},
  note      = {arXiv:2402.18909}
}"""
SETS = {
    "counterfact": ("CounterFact.json", "counterfactual edits of CounterFact as facts, texts or triplets", {}),
    "mquake-cf": ("MQuAKE-CF.json", "354 cases of MQuAKE-CF with edits as facts, texts or triplets", {"cases": 354}),
    "wikiupdate": ("WikiUpdate.json", "real updates of Wikidata with texts of Wikipedia", {}),
}
VARIANTS = tuple(
    Variant(
        name=f"{FAMILY}-{name}",
        family=FAMILY,
        summary=summary,
        file=file,
        url=f"https://github.com/BobXWu/AKEW/raw/main/datasets/{file}",
        license="not stated by its publisher",
        cite=CITE,
        published=published,
    )
    for name, (file, summary, published) in SETS.items()
)
ATLAS = atlas_variant(
    FAMILY,
    "40 counterfactual facts about countries, each with a text and triplets, in the format of AKEW (embedded)",
    CITE,
    cases=40,
)


@frozen(kw_only=True)
class AkewConfig:
    """Options of all AKEW datasets, for example ``-o akew.edit=fact``."""

    data_dir: str | None = data_dir_option("CounterFact.json, MQuAKE-CF.json and WikiUpdate.json", FAMILY)
    edit: Form = option(
        "how an edit is given: text = the question and the text, without a subject; fact = the structured "
        "fact; triplets = every triplet extracted from the text, side facts included",
        "text",
    )
    max_tokens: int | None = max_tokens_option(published=512, embedded=96)
    end: Literal["text", "line"] = answer_end_option()


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register the published sets and the embedded one."""
    return variant_specs(
        (*VARIANTS, ATLAS),
        _build,
        config=AkewConfig,
        aspects=(EFFICACY, PARAPHRASE, WHOLE_TEXT, SUB_QUESTION, PORTABILITY),
        styles=QUESTION_STYLES,
        metrics=("classic", "long-answer"),
        judge="containment",
    )


def _build(variant: Variant, config: AkewConfig) -> Dataset:
    from ke_plugin_akew import dataset  # noqa: PLC0415  built late

    kind = dataset.AkewAtlas if variant is ATLAS else dataset.Akew
    return kind(variant=variant, config=config)
