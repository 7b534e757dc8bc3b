"""Datasets ``mzsre``, ``bizsre`` and ``mzsre-atlas``: an edit in one language, and its questions in two."""

from __future__ import annotations

from attrs import Attribute, frozen

from ke_benchmarks import FORCED_ASPECTS, QUESTION_STYLES, Variant, atlas_variant, data_dir_option, variant_specs
from ke_core.plugin import (
    EFFICACY,
    LOCALITY,
    PARAPHRASE,
    PORTABILITY,
    BadConfig,
    Dataset,
    DatasetSpec,
    hookimpl,
    option,
)

FAMILY = "mzsre"
LANGUAGES = {
    "en": "en",
    "cz": "cs",
    "de": "de",
    "du": "nl",
    "es": "es",
    "fr": "fr",
    "pt": "pt",
    "ru": "ru",
    "th": "th",
    "tr": "tr",
    "vi": "vi",
    "zh": "zh",
}
"""The published codes, and the ISO 639 codes for tags: ``cz`` is Czech and ``du`` is Dutch."""
MZSRE = Variant(
    name=FAMILY,
    family=FAMILY,
    summary="743 edits of zsRE in 12 languages, two at a time: an edit in the first is tested in both",
    file="mzsre_test_duplicate_LANGUAGES.json",
    url="https://github.com/Vicky-Wil/ReMaKE/tree/main/data/MzsRE",
    license="not stated by its publisher",
    cite="""@inproceedings{wang2024retrieval,
  title     = {Retrieval-augmented Multilingual Knowledge Editing},
  author    = {Wang, Weixuan and Haddow, Barry and Birch, Alexandra},
  booktitle = {Proceedings of the 62nd Annual Meeting of the Association for Computational Linguistics},
  year      = {2024},
  note      = {arXiv:2312.13040}
}""",
    published={"cases": 743},
)
BIZSRE = Variant(
    name="bizsre",
    family=FAMILY,
    summary="1,037 edits of zsRE in English and Chinese: an edit in one language is tested in both",
    file="bizsre_test.json",
    url="https://github.com/krystalan/Bi_ZsRE, which links to the data",
    license="not stated by its publisher",
    cite="""@article{wang2023crosslingual,
  title   = {Cross-Lingual Knowledge Editing in Large Language Models},
  author  = {Wang, Jiaan and Liang, Yunlong and Sun, Zengkui and Cao, Yuxuan and Xu, Jiarong and Meng, Fandong},
  journal = {arXiv preprint arXiv:2309.08952},
  year    = {2023}
}""",
    published={"cases": 1037},
)
ATLAS = atlas_variant(
    FAMILY,
    "24 questions about capitals in English and German, in the format of MzsRE (embedded, offline)",
    MZSRE.cite,
    cases=24,
    url="built from the atlas of ke_benchmarks.graph, with German names",
)
AVAILABLE = {MZSRE.name: tuple(LANGUAGES), BIZSRE.name: ("en", "zh"), ATLAS.name: ("en", "de")}
"""The languages of each dataset."""


def _known(_instance: object, attribute: Attribute[str], value: str) -> None:
    if value and value not in LANGUAGES:
        raise ValueError(f"{attribute.name} must be one of {', '.join(LANGUAGES)}")


@frozen(kw_only=True)
class MzsreConfig:
    """Options of all three datasets, for example ``-o mzsre.edit=de``."""

    data_dir: str | None = data_dir_option("mzsre_test_duplicate_enzh.json, bizsre_test.json and so on", FAMILY)
    edit: str = option(
        f"language of the edit, a published code: {', '.join(LANGUAGES)} (cz Czech, du Dutch)", "en", _known
    )
    other: str = option(
        "second language of the questions; default: zh of mzsre, the other language of the datasets "
        "with two languages, or en for edits in that language",
        "",
        _known,
    )


def languages(name: str, config: MzsreConfig) -> tuple[str, str]:
    """Return the language of the edit and the other one. Raises BadConfig."""
    available = AVAILABLE[name]
    preferred = "zh" if name == MZSRE.name else available[1]
    other = config.other or (preferred if config.edit != preferred else "en")
    for language in (config.edit, other):
        if language not in available:
            raise BadConfig(f"{name} has no language {language!r}", hint=f"it has {', '.join(available)}")
    if config.edit == other:
        raise BadConfig(f"mzsre.edit and mzsre.other are both {other}", hint="choose two languages")
    return config.edit, other


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register the published datasets and the embedded one."""
    return variant_specs(
        (MZSRE, BIZSRE, ATLAS),
        _build,
        config=MzsreConfig,
        aspects=(EFFICACY, PARAPHRASE, *FORCED_ASPECTS, PORTABILITY, LOCALITY),
        styles=QUESTION_STYLES,
        metrics=("classic", "wild"),
        judge="containment",
    )


def _build(variant: Variant, config: MzsreConfig) -> Dataset:
    from ke_plugin_mzsre import dataset  # noqa: PLC0415  built late

    return dataset.build(variant, config)
