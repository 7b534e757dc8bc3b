"""The datasets of CompKE, whose questions are answered by sets: shared, joined, selected, before and after edits."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen, validators

from ke_benchmarks import (
    HIDE,
    ReproductionSpec,
    Variant,
    data_dir_option,
    file_option,
    mask_option,
    relations_option,
    reproductions_in,
)
from ke_benchmarks.graph import Builder, BuilderSpec
from ke_core.plugin import EFFICACY, Dataset, DatasetSpec, hookimpl

CITE = "CompKE: Complex Question Answering under Knowledge Editing (ACL submission of 2025; the paper's tables 1-4)"
STYLES = ("direct",)
COMPLEX = "complex"
"""The aspect of the questions that follow from the edits."""


def _counts(name: str, numbers: tuple[int, ...]) -> dict[str, int]:
    """Cases by a number from 1 on, as the paper's table of statistics has them."""
    found = enumerate(numbers, start=1)
    return {name.replace("{}", str(at)).replace("{s}", "s" if at > 1 else ""): count for at, count in found}


COMPKE = Variant(
    name="compke",
    family="compke",
    summary="11,924 questions over sets of objects, from its published file or from one of your own",
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
ATLAS = Variant(
    name="compke-atlas",
    family="compke",
    summary="400 questions over sets of countries, languages and the like, embedded: needs no download",
    file="",
    url="made by the builder of compke from the graph that comes with the core",
    license="Apache-2.0; facts: GeoNames, CC BY 4.0, and countryinfo, MIT (ATLAS-NOTICE.txt of ke-core)",
    cite=CITE,
)


@frozen(kw_only=True)
class CompkeConfig:
    """The options of the family: ``-o compke.mask=true``."""

    data_dir: str | None = data_dir_option("COMPKE.json", "compke")
    file: str | None = file_option("a file of your own in the format of the README, in place of COMPKE.json")
    mask: bool = mask_option()


@frozen(kw_only=True)
class CompkeAtlasConfig:
    """The options of ``compke-atlas``."""

    mask: bool = mask_option(f"{HIDE}: none, for edited cases")


@frozen(kw_only=True)
class CompkeBuild:
    """How cases are made from a graph: ``ke build compke -o build.share=0.1``."""

    edits: Literal["world", "case"] = field(
        default="world",
        metadata={
            "help": "world = one counterfactual world, in which no case contradicts another or rests on what another "
            "edits; case = as in the paper: each case draws its own edits, then the conflict filter keeps one case of "
            "each group of conflicting ones"
        },
    )
    share: float = field(
        default=0.25,
        validator=[validators.gt(0), validators.le(1)],
        metadata={"help": "how many of the facts are edited: a larger share makes more edits a case"},
    )
    popular: float = field(
        default=0.5,
        validator=[validators.gt(0), validators.le(1)],
        metadata={"help": "which share of subjects and objects is used, those that stand in the most facts first"},
    )
    closed: bool = field(
        default=False,
        metadata={
            "help": "what the graph does not say is not so, and a member without a value contributes nothing; else it "
            "is unknown, and a question that depends on it is not asked"
        },
    )
    relations: str = relations_option()


def build_builder(config: CompkeBuild) -> Builder:
    """The builder, with the wording of Wikidata's properties."""
    from ke_plugin_compke.builder import CompkeBuilder  # noqa: PLC0415  built late

    return CompkeBuilder(config=config, templates={})


def build_compke(config: CompkeConfig) -> Dataset:
    """The published file, or the user's own."""
    from ke_plugin_compke.dataset import compke  # noqa: PLC0415  built late

    return compke(config)


def build_atlas(config: CompkeAtlasConfig) -> Dataset:
    """The builder applied to the atlas."""
    from ke_plugin_compke.dataset import CompkeAtlas  # noqa: PLC0415  built late

    return CompkeAtlas(variant=ATLAS, config=config)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Offer ``compke`` and ``compke-atlas``."""
    builder = BuilderSpec(
        name="compke",
        summary="questions over sets, with counterfactual edits that add, delete and retain objects",
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
        COMPKE.spec(config=CompkeConfig, build=build_compke, builder=builder, **shared),
        ATLAS.spec(config=CompkeAtlasConfig, build=build_atlas, **shared),
    ]


@hookimpl(optionalhook=True)
def ke_reproductions() -> list[ReproductionSpec]:
    """Offer the paper's tables 2 and 3 and figures 4, 5 and 7."""
    return reproductions_in("ke_plugin_compke", "compke")
