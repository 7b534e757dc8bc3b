"""CompKE datasets: questions whose answers are sets of entities, before and after edits."""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen, validators

from ke_benchmarks import (
    HIDE,
    ReproductionSpec,
    Variant,
    atlas_variant,
    data_dir_option,
    file_option,
    mask_option,
    relations_option,
    reproductions_in,
)
from ke_benchmarks.graph import Builder, BuilderSpec
from ke_core.plugin import EFFICACY, Dataset, DatasetSpec, hookimpl, option

CITE = "CompKE: Complex Question Answering under Knowledge Editing (ACL submission of 2025; the paper's tables 1-4)"
STYLES = ("direct",)
COMPLEX = "complex"
"""Aspect of the questions that follow from the edits."""


def _counts(name: str, numbers: tuple[int, ...]) -> dict[str, int]:
    """Return counts of cases by a number from 1, as in the paper's table of statistics."""
    found = enumerate(numbers, start=1)
    return {name.replace("{}", str(at)).replace("{s}", "s" if at > 1 else ""): count for at, count in found}


COMPKE = Variant(
    name="compke",
    family="compke",
    summary="11,924 questions about sets of objects, from the published file or your own",
    file="COMPKE.json",
    url="https://raw.githubusercontent.com/kzjkzj666/CompKE/main/dataset/COMPKE.json",
    license="not stated in the paper",
    cite=CITE,
    published={
        "cases": 11924,
        **_counts("{} edit{s}", (9697, 1118, 998, 103, 8)),
        **_counts("steps: {}-step", (200, 424, 5770, 2949, 2581)),
    },
)
ATLAS = atlas_variant(
    "compke",
    "400 questions about sets of countries, languages and so on; embedded, needs no download",
    CITE,
    url="built by the builder of compke from the embedded graph",
)


@frozen(kw_only=True)
class CompkeConfig:
    """Options of the family, for example ``-o compke.mask=true``."""

    data_dir: str | None = data_dir_option("COMPKE.json", "compke")
    file: str | None = file_option("your own file in the format of the README, instead of COMPKE.json")
    mask: bool = mask_option()


@frozen(kw_only=True)
class CompkeAtlasConfig:
    """Options of ``compke-atlas``."""

    mask: bool = mask_option(f"{HIDE}: none, for edited cases")


@frozen(kw_only=True)
class CompkeBuild:
    """Options for building cases from a graph, for example ``ke build compke -o build.share=0.1``."""

    edits: Literal["world", "case"] = option(
        "world = one counterfactual world: no case contradicts another or depends on a fact that "
        "another edits; case = as in the paper: each case samples its own edits, then the conflict "
        "filter keeps one case of each group of conflicting cases",
        "world",
    )
    share: float = option(
        "fraction of the facts that are edited; higher values give more edits per case",
        0.25,
        [validators.gt(0), validators.le(1)],
    )
    popular: float = option(
        "fraction of subjects and objects that is used, starting with those in the most facts",
        0.5,
        [validators.gt(0), validators.le(1)],
    )
    closed: bool = option(
        "true = a fact that is not in the graph is false, and a member without a value contributes "
        "nothing; false = it is unknown, and questions that depend on it are not built",
        default=False,
    )
    relations: str = relations_option()


def build_builder(config: CompkeBuild) -> Builder:
    """Build the builder, with phrases for Wikidata's properties."""
    from ke_plugin_compke.builder import CompkeBuilder  # noqa: PLC0415  built late

    return CompkeBuilder(config=config, templates={})


def build_atlas(config: CompkeAtlasConfig) -> Dataset:
    """Build the dataset of the embedded graph."""
    from ke_plugin_compke.dataset import CompkeAtlas  # noqa: PLC0415  built late

    return CompkeAtlas(variant=ATLAS, config=config)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register ``compke`` and ``compke-atlas``."""
    builder = BuilderSpec(
        name="compke",
        summary="questions about sets, with counterfactual edits that add, delete and keep objects",
        config=CompkeBuild,
        build=build_builder,
        cite=CITE,
    )
    shared: dict[str, Any] = {
        "aspects": (EFFICACY, COMPLEX),
        "styles": STYLES,
        "metrics": ("set-answers", "retrieval"),
        "judge": "set",
    }
    return [
        COMPKE.spec(config=CompkeConfig, build="ke_plugin_compke.dataset:compke", builder=builder, **shared),
        ATLAS.spec(config=CompkeAtlasConfig, build=build_atlas, **shared),
    ]


@hookimpl(optionalhook=True)
def ke_reproductions() -> list[ReproductionSpec]:
    """Register tables 2 and 3 and figures 4, 5 and 7 of the paper."""
    return reproductions_in("ke_plugin_compke", "compke")
