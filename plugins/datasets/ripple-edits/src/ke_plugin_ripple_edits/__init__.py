"""RippleEdits datasets: for each edit, what must change because of it and what must not."""

from __future__ import annotations

from typing import Literal

from attrs import frozen, validators

from ke_benchmarks import ATLAS_LICENSE, ReproductionSpec, data_dir_option, file_option, mask_option, reproductions_in
from ke_benchmarks.graph import BuilderSpec
from ke_core.plugin import EFFICACY, BadData, Dataset, DatasetSpec, hookimpl, option
from ke_plugin_ripple_edits.variants import FAMILY, VARIANTS, RippleVariant

STYLE = "cloze"
ASPECTS = (
    EFFICACY,
    "known",
    "logical-generalization",
    "compositionality-1",
    "compositionality-2",
    "subject-aliasing",
    "preservation",
    "relation-specificity",
)
OWN = RippleVariant(
    name=FAMILY,
    summary="edits with their ripple effects from your own file in the format of RippleEdits",
    file="own.json",
    url="your own file: -o ripple-edits.file=FILE",
    license="yours",
)
ATLAS = RippleVariant(
    name="ripple-edits-atlas",
    summary="edits of countries and cities with their ripple effects, by six criteria (embedded, offline)",
    file="",
    url="built from the atlas of ke_benchmarks.graph by the builder of ripple-edits",
    license=ATLAS_LICENSE,
)


@frozen(kw_only=True)
class RippleEditsConfig:
    """Options shared by all datasets, for example ``-o ripple-edits.mask=true``."""

    data_dir: str | None = data_dir_option("the published JSON", FAMILY)
    file: str | None = file_option("dataset ripple-edits: your own file in the published format")
    mask: bool = mask_option("hide from each case the edits that contradict the facts its tests depend on")


@frozen(kw_only=True)
class RippleBuildConfig:
    """Options for building cases from a graph, for example ``-o build.subset=popular``."""

    subset: Literal["recent", "random", "popular"] = option(
        "random = the same number of subjects from each of ten buckets by number of facts, edited to "
        "another object; popular = the tenth with the most facts, edited to another object; recent = "
        "the graph's own facts, injected",
        "random",
    )
    rules: str | None = option(
        "a TOML table of logical rules and phrases, in addition to the included one", None, file=True
    )
    backwards: int = option(
        "compositionality II: number of subjects for each relation that points at the edited entity",
        10,
        validators.ge(0),
    )


BUILDER = BuilderSpec(
    name=FAMILY,
    summary="edits with tests by six criteria: logical rules, two hops, aliases, other objects, other relations",
    config=RippleBuildConfig,
    build="ke_plugin_ripple_edits.build:RippleBuilder",
    cite="Cohen et al. 2024, RippleEdits, section 4.1",
)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register the three subsets, the dataset for your own file, and the embedded one."""
    return [_spec(OWN), *map(_spec, VARIANTS), _spec(ATLAS)]


def _spec(variant: RippleVariant) -> DatasetSpec:
    def build_variant(config: RippleEditsConfig) -> Dataset:
        from ke_plugin_ripple_edits import dataset  # noqa: PLC0415  built late

        if variant is OWN:
            return dataset.own(variant, config)
        if config.file:
            raise BadData(f"{variant.name} does not read {FAMILY}.file", hint=f"use --dataset {FAMILY}")
        kind = dataset.RippleAtlas if variant is ATLAS else dataset.RippleEdits
        return kind(variant=variant, config=config)

    return variant.spec(
        config=RippleEditsConfig,
        build=build_variant,
        family=FAMILY,
        aspects=ASPECTS,
        styles=(STYLE,),
        metrics=("ripple",),
        judge="containment",
        builder=BUILDER if variant.name == FAMILY else None,
    )


@hookimpl(optionalhook=True)
def ke_reproductions() -> list[ReproductionSpec]:
    """Register tables 1 to 7 and figures 6 and 7 of the paper."""
    return reproductions_in("ke_plugin_ripple_edits", FAMILY)
