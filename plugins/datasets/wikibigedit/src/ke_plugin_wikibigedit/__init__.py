"""Datasets ``wikibigedit`` and ``wikibigedit-atlas``: changes of Wikidata as questions, in timesteps."""

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

FAMILY = "wikibigedit"
STEPS = (
    "20240201_20240220",
    "20240220_20240301",
    "20240301_20240320",
    "20240320_20240401",
    "20240401_20240501",
    "20240501_20240601",
    "20240601_20240620",
    "20240620_20240701",
)
"""The published intervals, in order. A file is named after its interval."""
ATLAS_STEPS = 3
"""Number of timesteps of the embedded dataset."""
CITE = """@inproceedings{thede2025wikibigedit,
  title     = {{WikiBigEdit}: Understanding the Limits of Lifelong Knowledge Editing in {LLMs}},
  author    = {Thede, Lukas and Roth, Karsten and Bethge, Matthias and Akata, Zeynep and Hartvigsen, Thomas},
  booktitle = {Proceedings of the 42nd International Conference on Machine Learning},
  year      = {2025},
  note      = {arXiv:2503.05683}
}"""
WIKIBIGEDIT = Variant(
    name=FAMILY,
    family=FAMILY,
    summary="over 500,000 real changes of Wikidata as questions, in eight timesteps of 2024",
    file=f"wiki_big_edit_{STEPS[0]}.json",
    url="https://huggingface.co/datasets/lukasthede/WikiBigEdit",
    license="Apache-2.0",
    cite=CITE,
)
ATLAS = atlas_variant(
    FAMILY, "48 questions about countries and cities in three timesteps, in the format of WikiBigEdit (embedded)", CITE
)


def numbers(text: str, last: int = len(STEPS)) -> tuple[int, ...]:
    """Return the numbers of the timesteps in the option ``steps``, in order; default: all. Raises ValueError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() and 1 <= int(part) <= last for part in parts):
        raise ValueError(f"steps must be numbers from 1 to {last} with commas, not {text!r}")
    return tuple(sorted({int(part) for part in parts})) or tuple(range(1, last + 1))


def _valid(_instance: object, _attribute: Attribute[str], value: str) -> None:
    numbers(value)


@frozen(kw_only=True)
class WikibigeditConfig:
    """Options of both datasets, for example ``-o wikibigedit.steps=1,2``."""

    data_dir: str | None = data_dir_option("wiki_big_edit_20240201_20240220.json and so on", FAMILY)
    steps: str = option(
        "timesteps to read, 1 to 8, separated by commas; default: all. Only their files are needed", "", _valid
    )


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register the published files and the embedded dataset."""
    return variant_specs(
        (WIKIBIGEDIT, ATLAS),
        _build,
        config=WikibigeditConfig,
        aspects=(EFFICACY, PARAPHRASE, *FORCED_ASPECTS, PORTABILITY, LOCALITY),
        styles=QUESTION_STYLES,
        metrics=("classic", "wild"),
        judge="containment",
    )


def _build(variant: Variant, config: WikibigeditConfig) -> Dataset:
    from ke_plugin_wikibigedit import dataset  # noqa: PLC0415  built late

    if variant is not ATLAS:
        return dataset.Wikibigedit(variant=variant, config=config)
    try:
        numbers(config.steps, ATLAS_STEPS)
    except ValueError as wrong:
        raise BadConfig(f"{ATLAS.name}: {wrong}", hint=f"leave out {FAMILY}.steps to read all timesteps") from wrong
    return dataset.WikibigeditAtlas(variant=variant, config=config)
