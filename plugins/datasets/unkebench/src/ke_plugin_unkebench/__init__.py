"""Datasets ``unkebench`` and ``unkebench-atlas``: edits whose target is a paragraph, without a subject."""

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
from ke_core.plugin import EFFICACY, PARAPHRASE, Dataset, DatasetSpec, hookimpl

FAMILY = "unkebench"
CITE = """@inproceedings{deng2025unke,
  title     = {Everything is Editable: Extend Knowledge Editing to Unstructured Data in Large Language Models},
  author    = {Deng, Jingcheng and Wei, Zihao and Pang, Liang and Ding, Hanxing and Shen, Huawei and Cheng, Xueqi},
  booktitle = {The Thirteenth International Conference on Learning Representations},
  year      = {2025},
  note      = {arXiv:2405.15349}
}"""
UNKEBENCH = Variant(
    name=FAMILY,
    family=FAMILY,
    summary="1,000 questions whose answer becomes a counterfactual paragraph, with a paraphrase and sub-questions",
    file="final_data_v3.json",
    url="https://github.com/TrustedLLM/UnKE/raw/main/data/final_data_v3.json",
    license="not stated by its publisher",
    cite=CITE,
    published={"cases": 1000},
)
ATLAS = atlas_variant(
    FAMILY,
    "40 counterfactual paragraphs about countries in the format of UnKEBench (embedded, offline)",
    CITE,
    cases=40,
)


@frozen(kw_only=True)
class UnkebenchConfig:
    """Options of both datasets, for example ``-o unkebench.max_tokens=128``."""

    data_dir: str | None = data_dir_option(UNKEBENCH.file, FAMILY)
    max_tokens: int | None = max_tokens_option(published=512, embedded=96)
    end: Literal["text", "line"] = answer_end_option()


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register the published file and the embedded dataset."""
    return variant_specs(
        (UNKEBENCH, ATLAS),
        _build,
        config=UnkebenchConfig,
        aspects=(EFFICACY, PARAPHRASE, SUB_QUESTION),
        styles=QUESTION_STYLES,
        metrics=("long-answer",),
        judge="exact-match",
    )


def _build(variant: Variant, config: UnkebenchConfig) -> Dataset:
    from ke_plugin_unkebench import dataset  # noqa: PLC0415  built late

    kind = dataset.UnkebenchAtlas if variant is ATLAS else dataset.Unkebench
    return kind(variant=variant, config=config)
