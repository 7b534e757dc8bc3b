"""Datasets of KnowEdit: six published sets of edits with portability and locality, and an embedded one."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_benchmarks import FORCED_ASPECTS, QUESTION_STYLES, Variant, atlas_variant, data_dir_option
from ke_core.plugin import EFFICACY, FLUENCY, LOCALITY, PARAPHRASE, PORTABILITY, Dataset, DatasetSpec, hookimpl, option

FAMILY = "knowedit"
CITE = """@article{zhang2024comprehensive,
  title   = {A Comprehensive Study of Knowledge Editing for Large Language Models},
  author  = {Zhang, Ningyu and Yao, Yunzhi and Tian, Bozhong and Wang, Peng and Deng, Shumin and others},
  journal = {arXiv preprint arXiv:2401.01286},
  year    = {2024}
}"""
SETS = {
    "recent": ("wiki_recent/recent_test.json", "facts of Wikidata that are new since 2022"),
    "zsre": ("ZsRE/ZsRE-test-all.json", "1,301 questions of zsRE with another answer"),
    "wikibio": ("WikiBio/wikibio-test-all.json", "sentences that replace hallucinations in biographies"),
    "counterfact": ("wiki_counterfact/test_cf.json", "counterfactual facts of Wikidata"),
    "convsent": ("convsent/blender_test.json", "opinions about a topic that get another sentiment"),
    "sanitation": ("Sanitation/trivia_qa_test.json", "80 answers to forget, each with one to retain"),
}
"""Name to file and summary."""
LONG = ("wikibio", "convsent")
"""Sets whose targets are sentences."""
VARIANTS = tuple(
    Variant(
        name=f"{FAMILY}-{name}",
        family=FAMILY,
        summary=summary,
        file=file,
        url="https://huggingface.co/datasets/zjunlp/KnowEdit",
        license="MIT",
        cite=CITE,
    )
    for name, (file, summary) in SETS.items()
)
ATLAS = atlas_variant(
    FAMILY,
    "40 facts about cities with portability and locality, as in Wiki_counterfact (embedded, offline)",
    CITE,
    cases=40,
)


@frozen(kw_only=True)
class KnoweditConfig:
    """Options of all KnowEdit datasets, for example ``-o knowedit.fluency=true``."""

    data_dir: str | None = data_dir_option("wiki_counterfact/test_cf.json and so on", FAMILY)
    objects: Literal["any", "all"] = option(
        "which of several right objects an answer must name: any, or all of them; the released code "
        "reads the first one",
        "any",
    )
    fluency: bool = option("continue the edit's prompt by 100 tokens, to measure fluency", default=False)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register the six published sets and the embedded one."""
    return [_spec(variant) for variant in (*VARIANTS, ATLAS)]


def _spec(variant: Variant) -> DatasetSpec:
    def build(config: KnoweditConfig) -> Dataset:
        from ke_plugin_knowedit import dataset  # noqa: PLC0415  built late

        return dataset.build(variant, config)

    long = variant.name.removeprefix(f"{FAMILY}-") in LONG
    return variant.spec(
        config=KnoweditConfig,
        build=build,
        family=FAMILY,
        aspects=(EFFICACY, PARAPHRASE, *FORCED_ASPECTS, PORTABILITY, LOCALITY, FLUENCY),
        styles=QUESTION_STYLES,
        metrics=("classic", "wild", "long-answer") if long else ("classic", "wild"),
        judge="containment",
    )
