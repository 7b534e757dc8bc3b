"""Datasets ``qaedit`` and ``qaedit-atlas``: edits of question answers, with and without teacher forcing (WILD)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen, validators

from ke_benchmarks import FORCED_ASPECTS, Variant, atlas_variant, data_dir_option, variant_specs
from ke_core.plugin import EFFICACY, LOCALITY, PARAPHRASE, Dataset, DatasetSpec, hookimpl, option

FAMILY = "qaedit"
STYLES = ("question", "instruction")
LOCALITY_ITEMS = 5
CITE = """@inproceedings{yang2025mirage,
  title     = {The Mirage of Model Editing: Revisiting Evaluation in the Wild},
  author    = {Yang, Wanli and Sun, Fei and Tan, Jiajun and Ma, Xinyu and Cao, Qi and Yin, Dawei and Shen, Huawei
               and Cheng, Xueqi},
  booktitle = {Proceedings of the 63rd Annual Meeting of the Association for Computational Linguistics},
  year      = {2025},
  note      = {arXiv:2502.11177}
}"""
QAEDIT = Variant(
    name=FAMILY,
    family=FAMILY,
    summary="1,000 questions of Natural Questions, TriviaQA and SimpleQA as single edits, asked as in WILD",
    file="QAEdit_inter_1k.json",
    url="https://github.com/WanliYoung/Revisit-Editing-Evaluation/raw/main/data/QAEdit_inter_1k.json",
    license="Apache-2.0 (of the repository)",
    cite=CITE,
    size=1_117_792,
    blobs={"e5e743b4": "WanliYoung/Revisit-Editing-Evaluation"},
    published={"cases": 1000},
)
ATLAS = atlas_variant(
    FAMILY, "80 questions about countries and cities in the format of QAEdit (embedded, offline)", CITE, cases=80
)


@frozen(kw_only=True)
class QAEditConfig:
    """Options of both datasets, for example ``-o qaedit.stop=line``."""

    data_dir: str | None = data_dir_option(QAEDIT.file, FAMILY)
    stop: Literal["period", "line"] = option(
        "what ends a generated answer besides the end-of-text token: period = a period or a line end "
        '(released code; cuts "J. K. Rowling" to "J"); line = a line end',
        "period",
    )
    locality: int = option(
        "how many of a record's 5 unrelated questions are asked (released code: the first one)",
        1,
        [validators.ge(0), validators.le(LOCALITY_ITEMS)],
    )


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register the published file and the embedded dataset."""
    return variant_specs(
        (QAEDIT, ATLAS),
        _build,
        config=QAEditConfig,
        aspects=(EFFICACY, PARAPHRASE, *FORCED_ASPECTS, LOCALITY),
        styles=STYLES,
        metrics=("wild", "classic"),
        judge="exact-match",
    )


def _build(variant: Variant, config: QAEditConfig) -> Dataset:
    from ke_plugin_qaedit import dataset  # noqa: PLC0415  built late

    kind = dataset.QAEditAtlas if variant is ATLAS else dataset.QAEdit
    return kind(variant=variant, config=config)
