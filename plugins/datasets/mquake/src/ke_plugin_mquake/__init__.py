"""MQuAKE datasets: multi-hop questions whose answers change with the edited facts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from attrs import frozen, validators

from ke_benchmarks import (
    ReproductionSpec,
    Variant,
    data_dir_option,
    file_option,
    mask_option,
    relations_option,
    reproductions_in,
)
from ke_benchmarks.graph import BuilderSpec
from ke_core.plugin import SINGLE_ASPECTS, Dataset, DatasetSpec, hookimpl, option
from ke_plugin_mquake.variants import ATLAS, OWN, VARIANTS, MquakeVariant

STYLES = ("direct", "cot")


@frozen(kw_only=True)
class MquakeConfig:
    """Options shared by all variants, for example ``-o mquake.mask=true``."""

    data_dir: str | None = data_dir_option("the published JSON", "mquake")
    prompts: str = option(
        "demonstrations: own = written for this package; paper = the authors' files, from the "
        "data folder; or a folder with recall.json, multi-hop.txt, cot.txt and decompose.txt",
        "own",
    )
    file: str | None = file_option("for the dataset mquake: a file in the published format, built or your own")
    mask: bool = mask_option("hide from each case the edits that contradict its own path (MQuAKE-Remastered)")
    view: Literal["cases", "edits"] = option(
        "cases = as published; edits = each distinct edit is a case of its own, with its fact in two "
        "prompt formats and ten facts of the same relation that must not change",
        "cases",
    )


@frozen(kw_only=True)
class MquakeBuild:
    """Options for building cases from a graph, for example ``ke build mquake -o build.share=0.3``."""

    hops: tuple[int, ...] = option("lengths of chains", (2, 3, 4))
    edits: Literal["world", "case"] = option(
        "world = one counterfactual world: no case contradicts another or depends on a fact that "
        "another edits; case = each case samples its own edits, as in the paper",
        "world",
    )
    share: float = option(
        "fraction of the facts that are edited in the one world; higher values give more edits per case",
        0.4,
        [validators.gt(0), validators.le(1)],
    )
    popular: float = option(
        "fraction of the entities that are used, starting with those in the most facts (paper: 0.2)",
        1.0,
        [validators.gt(0), validators.le(1)],
    )
    relations: str = relations_option()
    newer: str = option("a newer graph: edits are the facts that differ in it (MQuAKE-T)", "", file=True)
    newer_relations: str = option("the newer graph's table of relations, if needed", "", file=True)


BUILDER = BuilderSpec(
    name="mquake",
    summary="chains of 2 to 4 facts with counterfactual edits, and questions over them",
    config=MquakeBuild,
    build="ke_plugin_mquake.builder:MquakeBuilder",
)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register the published variants, the dataset for your own files, and the embedded dataset."""
    return [
        variant_spec(variant, MquakeConfig, partial(build, variant), builder=BUILDER if variant is OWN else None)
        for variant in (*VARIANTS, OWN, ATLAS)
    ]


def build(variant: MquakeVariant, config: MquakeConfig) -> Dataset:
    """Build the dataset of one variant."""
    from ke_plugin_mquake.dataset import make_dataset  # noqa: PLC0415  built late

    return make_dataset(variant, config)


def variant_spec(
    variant: Variant, config: type, build: Callable[[Any], Dataset], *, builder: BuilderSpec | None = None
) -> DatasetSpec:
    """Return the specification of a dataset with MQuAKE's questions."""
    return variant.spec(
        config=config,
        build=build,
        family=variant.family,
        aspects=(*SINGLE_ASPECTS, "instance", "multi-hop"),
        styles=STYLES,
        metrics=("multi-hop", "retrieval"),
        judge="alias",
        builder=builder,
    )


@hookimpl(optionalhook=True)
def ke_reproductions() -> list[ReproductionSpec]:
    """Register tables 3, 4, 5, 12, 13, 14 and figure 2 of the paper."""
    return reproductions_in("ke_plugin_mquake", "mquake")
