"""ReCoE datasets: questions that require reasoning over edited facts, in six schemes."""

from __future__ import annotations

from functools import partial
from typing import Any

from attrs import frozen, validators

from ke_benchmarks import (
    HIDE,
    ReproductionSpec,
    Variant,
    atlas_variant,
    file_option,
    mask_option,
    relations_option,
    reproductions_in,
)
from ke_benchmarks.graph import Builder, BuilderSpec
from ke_core.plugin import (
    COUNTERFACTUALS_PERPLEXITY,
    EFFICACY,
    FACTS_PERPLEXITY,
    Dataset,
    DatasetSpec,
    Defaults,
    hookimpl,
    option,
)

CITE = (
    "Hua et al. 2024, Propagation and Pitfalls: Reasoning-based Assessment of Knowledge Editing through "
    "Counterfactual Tasks (ReCoE)"
)
STYLES = ("direct", "cot")
PERPLEXITY = "fact-perplexity"
METRICS = ("correct-flip", PERPLEXITY, "retrieval")
"""Metrics of sections 4.2 and 5.1 of the paper. Those of 5.2 and 5.3 need a judge model (``ke judge``)."""
REASONING = "reasoning"
"""Aspect of the questions that follow from the edits."""
GROUPS = {
    "superlative": "swap", "comparative": "swap", "counting": "alter",
    "sorting": "swap", "aggregation": "alter", "subtraction": "alter",
}  # fmt: skip
"""Scheme to the construction of its counterfactual facts, in the order of the paper's tables."""
RELEASED = {
    "superlative": 1172, "comparative": 1153, "counting": 643, "sorting": 1034, "aggregation": 508, "subtraction": 500,
}  # fmt: skip
"""Number of records in the release. The paper's datasets are slightly larger."""
WHAT = {
    "superlative": "which of several entities is extreme",
    "comparative": "a comparison of two entities, or with a threshold",
    "counting": "a count",
    "sorting": "an order of several entities",
    "aggregation": "a sum of counts",
    "subtraction": "a difference of two counts",
}
MADE = {"swap": "swapped", "alter": "altered"}
LICENSE = "CC BY-NC-ND 4.0: neither included nor downloaded"
URL = "https://arxiv.org/abs/2401.17585"
"""The paper, which links to the release."""
FILE = "counterfactual_datapoints_verified_atomic.json"
"""File name of each scheme in the release, in the folder of the scheme."""
BLOBS = {
    "superlative": "9ad9a143", "comparative": "914eba22", "counting": "eb7b7322", "sorting": "abbc5338",
    "aggregation": "2fa3b9aa",
}  # fmt: skip
"""First digits of the Git blob ids of those files, if known."""


def _variant(scheme: str, size: int) -> Variant:
    return Variant(
        name=f"recoe-{scheme}",
        family="recoe",
        summary=f"{size:,} questions: {WHAT[scheme]}, with {MADE[GROUPS[scheme]]} facts",
        file=f"data/{scheme}",
        url=URL,
        license=LICENSE,
        cite=CITE,
        published={"cases": size},
    )


VARIANTS = {scheme: _variant(scheme, size) for scheme, size in RELEASED.items()}
WHOLE = Variant(
    name="recoe",
    family="recoe",
    summary="5,010 questions in six reasoning schemes, from the release or your own file",
    file="data",
    url=URL,
    license=LICENSE,
    cite=CITE,
    published={"cases": sum(RELEASED.values())},
)
ATLAS = atlas_variant(
    "recoe",
    "360 questions in six schemes about populations, areas and borders; embedded, needs no download",
    CITE,
    url="built by the builder of recoe from the embedded graph",
)


def _perplexity_option() -> Any:
    text = "ask how probable facts and counterfactuals are, for fact-perplexity; false for a model that gives no "
    return option(f"{text}log-probabilities", default=True)


@frozen(kw_only=True)
class RecoeConfig:
    """Options of the family, for example ``-o recoe.mask=true``."""

    data_dir: str | None = option("folder with the release's folders, SCHEME/*.json or data/SCHEME/*.json", None)
    file: str | None = file_option(
        "your own file in the format of the README, instead of the release; in the dataset recoe, each of its "
        "records names its scheme"
    )
    mask: bool = mask_option()
    perplexity: bool = _perplexity_option()


@frozen(kw_only=True)
class RecoeAtlasConfig:
    """Options of ``recoe-atlas``, with the same prefix: ``-o recoe.mask=true``."""

    mask: bool = mask_option(f"{HIDE}: none, for edited cases")
    perplexity: bool = _perplexity_option()


@frozen(kw_only=True)
class RecoeBuild:
    """Options for building cases from a graph, for example ``ke build recoe -o build.margin=2``."""

    relations: str = relations_option()
    margin: float = option("minimum ratio of the larger to the smaller of two compared numbers", 1.5, validators.gt(1))
    share: float = option(
        "fraction of the entities whose numbers are exchanged or changed", 0.6, [validators.gt(0), validators.lt(1)]
    )
    words: str = option("a JSON file with phrases for relations (see the README), instead of general ones", "")
    facts: int = option("with --from: number of facts requested for each entity", 3, validators.ge(1))
    prompts: str = option("with --from: the prompts, own or a folder with files of the same names", "own")


def build_builder(config: RecoeBuild) -> Builder:
    """Build the builder with the phrases of the options."""
    from ke_plugin_recoe.builder import RecoeBuilder  # noqa: PLC0415  built late
    from ke_plugin_recoe.words import read_words  # noqa: PLC0415  as above

    return RecoeBuilder(config=config, words=read_words(config.words))


def build_atlas(config: RecoeAtlasConfig) -> Dataset:
    """Build the dataset of the embedded graph."""
    from ke_plugin_recoe.dataset import RecoeAtlas  # noqa: PLC0415  built late

    return RecoeAtlas(variant=ATLAS, config=config)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register ``recoe``, its six schemes and ``recoe-atlas``."""
    builder = BuilderSpec(
        name="recoe",
        summary="questions that require reasoning over exchanged or changed numbers, in six schemes",
        config=RecoeBuild,
        build=build_builder,
        cite=CITE,
    )
    shared: dict[str, Any] = {
        "aspects": (EFFICACY, REASONING, FACTS_PERPLEXITY, COUNTERFACTUALS_PERPLEXITY),
        "styles": STYLES,
        "metrics": METRICS,
        "judge": "alias",
        "defaults": _defaults,
        "family": "recoe",
    }
    released = [
        variant.spec(
            config=RecoeConfig,
            build=partial(build_released, variant),
            builder=builder if variant is WHOLE else None,
            **shared,
        )
        for variant in (WHOLE, *VARIANTS.values())
    ]
    return [*released, ATLAS.spec(config=RecoeAtlasConfig, build=build_atlas, **shared)]


def build_released(variant: Variant, config: RecoeConfig) -> Dataset:
    """Build the dataset of one scheme of the release, or of all."""
    from ke_plugin_recoe.dataset import Recoe  # noqa: PLC0415  built late

    return Recoe(variant=variant, config=config)


def _defaults(config: Any) -> Defaults:
    metrics = METRICS if config.perplexity else tuple(name for name in METRICS if name != PERPLEXITY)
    return Defaults(judge="alias", metrics=metrics)


@hookimpl(optionalhook=True)
def ke_reproductions() -> list[ReproductionSpec]:
    """Register tables 2 to 6 and figures 4 to 6 of the paper."""
    return reproductions_in("ke_plugin_recoe", "recoe")
