"""Datasets ``uniedit`` and ``uniedit-atlas``: edits of Wikidata with a question about a neighborhood of each."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_benchmarks import FORCED, QUESTION_STYLES, Variant, atlas_variant, data_dir_option, variant_specs
from ke_core.plugin import EFFICACY, LOCALITY, PORTABILITY, BadConfig, Dataset, DatasetSpec, hookimpl, option

FAMILY = "uniedit"
CITE = """@article{chen2025uniedit,
  title   = {{UniEdit}: A Unified Knowledge Editing Benchmark for Large Language Models},
  author  = {Chen, Qizhou and Wang, Dakan and Zhang, Taolin and Yan, Zaoming and You, Chengsong and others},
  journal = {arXiv preprint arXiv:2505.12345},
  year    = {2025}
}"""
UNIEDIT = Variant(
    name=FAMILY,
    family=FAMILY,
    summary="311,000 edits of Wikidata in 25 domains, each with a generality and a locality question",
    file="test/DOMAIN.json",
    url="https://huggingface.co/datasets/qizhou/UniEdit",
    license="MIT",
    cite=CITE,
)
ATLAS = atlas_variant(
    FAMILY,
    "40 facts about countries with questions of seven kinds, in the format of UniEdit (embedded, offline)",
    CITE,
    cases=40,
)


@frozen(kw_only=True)
class UnieditConfig:
    """Options of both datasets, for example ``-o uniedit.domains=biology,art``."""

    data_dir: str | None = data_dir_option("the folders test/ and train/ of UniEdit", FAMILY)
    part: Literal["test", "train"] = option("the folder that is read", "test")
    domains: str = option("domains to read, the names of files without .json, separated by commas; default: all", "")
    hops: Literal["edit", "keep"] = option(
        "the other hops of a generality question: edit = facts that are edited in too, in every case, so "
        "that the question tests the edit and not the model's knowledge; keep = they are left to the model",
        "edit",
    )


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register the published files and the embedded dataset."""
    return variant_specs(
        (UNIEDIT, ATLAS),
        _build,
        config=UnieditConfig,
        aspects=(EFFICACY, EFFICACY + FORCED, PORTABILITY, LOCALITY),
        styles=QUESTION_STYLES,
        metrics=("classic", "wild"),
        judge="containment",
    )


def _build(variant: Variant, config: UnieditConfig) -> Dataset:
    from ke_plugin_uniedit import dataset  # noqa: PLC0415  built late

    if variant is not ATLAS:
        return dataset.Uniedit(variant=variant, config=config)
    if config.domains or config.part != "test":
        raise BadConfig(f"{ATLAS.name} does not read {FAMILY}.domains or {FAMILY}.part", hint="leave them out")
    return dataset.UnieditAtlas(variant=variant, config=config)
