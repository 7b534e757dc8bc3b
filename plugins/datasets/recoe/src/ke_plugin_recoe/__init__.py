"""The datasets of ReCoE: questions that take reasoning over edited facts, in six schemes."""

from __future__ import annotations

from functools import partial
from typing import Any

from attrs import field, frozen, validators

from ke_benchmarks import HIDE, ReproductionSpec, Variant, file_option, mask_option, relations_option, reproductions_in
from ke_benchmarks.graph import Builder, BuilderSpec
from ke_core.plugin import (
    COUNTERFACTUALS_PERPLEXITY,
    EFFICACY,
    FACTS_PERPLEXITY,
    Dataset,
    DatasetSpec,
    Defaults,
    hookimpl,
)

CITE = (
    "Hua et al. 2024, Propagation and Pitfalls: Reasoning-based Assessment of Knowledge Editing through "
    "Counterfactual Tasks (ReCoE)"
)
STYLES = ("direct", "cot")
PERPLEXITY = "fact-perplexity"
METRICS = ("correct-flip", PERPLEXITY, "retrieval")
"""Of sections 4.2 and 5.1 of the paper; the two that a model judges (5.2, 5.3) come with ``ke judge``."""
REASONING = "reasoning"
"""The aspect of the questions that follow from the edits."""
GROUPS = {
    "superlative": "swap", "comparative": "swap", "counting": "alter",
    "sorting": "swap", "aggregation": "alter", "subtraction": "alter",
}  # fmt: skip
"""Scheme to how its counterfactual facts are made, in the order of the paper's tables."""
RELEASED = {
    "superlative": 1172, "comparative": 1153, "counting": 643, "sorting": 1034, "aggregation": 508, "subtraction": 500,
}  # fmt: skip
"""How many records the release has; the paper's sets are a little larger."""
WHAT = {
    "superlative": "which of several things is extreme",
    "comparative": "a comparison of two things, or with a threshold",
    "counting": "how many there are",
    "sorting": "an order of several things",
    "aggregation": "a sum of counts",
    "subtraction": "a difference of two counts",
}
MADE = {"swap": "swapped", "alter": "altered"}
LICENSE = "CC BY-NC-ND 4.0: not shipped and not fetched"
URL = "https://arxiv.org/abs/2401.17585"
"""The paper, which leads to the release."""
FILE = "counterfactual_datapoints_verified_atomic.json"
"""The name of the file of each scheme in the release, in the folder of the scheme."""
BLOBS = {
    "superlative": "9ad9a143", "comparative": "914eba22", "counting": "eb7b7322", "sorting": "abbc5338",
    "aggregation": "2fa3b9aa",
}  # fmt: skip
"""The first digits of the Git blob ids of those files, as far as known."""


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
    summary="5,010 questions in six schemes of reasoning, from the release or from a file of your own",
    file="data",
    url=URL,
    license=LICENSE,
    cite=CITE,
    published={"cases": sum(RELEASED.values())},
)
ATLAS = Variant(
    name="recoe-atlas",
    family="recoe",
    summary="360 questions in six schemes about populations, areas and borders, embedded: needs no download",
    file="",
    url="made by the builder of recoe from the graph that comes with the core",
    license="Apache-2.0; facts: GeoNames, CC BY 4.0, and countryinfo, MIT (ATLAS-NOTICE.txt of ke-core)",
    cite=CITE,
)


def _perplexity_option() -> Any:
    text = "ask how probable facts and counterfactuals are, for fact-perplexity; false for a model that gives no "
    return field(default=True, metadata={"help": f"{text}log-probabilities"})


@frozen(kw_only=True)
class RecoeConfig:
    """The options of the family: ``-o recoe.mask=true``."""

    data_dir: str | None = field(
        default=None, metadata={"help": "folder that holds the release's folders, SCHEME/*.json or data/SCHEME/*.json"}
    )
    file: str | None = file_option(
        "a file of your own in the format of the README, in place of the release; of the dataset recoe, each of its "
        "records names its scheme"
    )
    mask: bool = mask_option()
    perplexity: bool = _perplexity_option()


@frozen(kw_only=True)
class RecoeAtlasConfig:
    """The options of ``recoe-atlas``."""

    mask: bool = mask_option(f"{HIDE}: none, for edited cases")
    perplexity: bool = _perplexity_option()


@frozen(kw_only=True)
class RecoeBuild:
    """How cases are made from a graph: ``ke build recoe -o build.margin=2``."""

    relations: str = relations_option()
    margin: float = field(
        default=1.5,
        validator=validators.gt(1),
        metadata={"help": "how many times the smaller the larger of two numbers is at least, where they are compared"},
    )
    share: float = field(
        default=0.6,
        validator=[validators.gt(0), validators.lt(1)],
        metadata={"help": "how many of the things have their numbers swapped or altered; the others stay as they are"},
    )
    words: str = field(
        default="",
        metadata={"help": "a JSON file that words relations, as the README has it, in place of general words"},
    )
    facts: int = field(
        default=3,
        validator=validators.ge(1),
        metadata={"help": "with --from: how many facts the model is asked for about each thing"},
    )
    prompts: str = field(
        default="own", metadata={"help": "with --from: the prompts, own or a folder with files of the same names"}
    )


def build_builder(config: RecoeBuild) -> Builder:
    """The builder, with the wording that the options name."""
    from ke_plugin_recoe.builder import RecoeBuilder  # noqa: PLC0415  built late
    from ke_plugin_recoe.words import read_words  # noqa: PLC0415  as above

    return RecoeBuilder(config=config, words=read_words(config.words))


def build_atlas(config: RecoeAtlasConfig) -> Dataset:
    """The builder applied to the atlas."""
    from ke_plugin_recoe.dataset import RecoeAtlas  # noqa: PLC0415  built late

    return RecoeAtlas(variant=ATLAS, config=config)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Offer ``recoe``, its six schemes and ``recoe-atlas``."""
    builder = BuilderSpec(
        name="recoe",
        summary="questions that take reasoning over swapped or altered numbers, in six schemes",
        config=RecoeBuild,
        build=build_builder,
        cite=CITE,
    )
    shared: dict[str, Any] = {
        "aspects": (EFFICACY, REASONING, FACTS_PERPLEXITY, COUNTERFACTUALS_PERPLEXITY),
        "styles": STYLES,
        "metrics": METRICS,
        "judge": "alias",
        "usual": _usual,
    }
    released = [
        variant.spec(
            config=RecoeConfig,
            build=partial(build_released, variant),
            family="recoe",
            builder=builder if variant is WHOLE else None,
            **shared,
        )
        for variant in (WHOLE, *VARIANTS.values())
    ]
    return [*released, ATLAS.spec(config=RecoeAtlasConfig, build=build_atlas, **shared)]


def build_released(variant: Variant, config: RecoeConfig) -> Dataset:
    """Return one scheme of the release, or all of them."""
    from ke_plugin_recoe.dataset import Recoe  # noqa: PLC0415  built late

    return Recoe(variant=variant, config=config)


def _usual(config: Any) -> Defaults:
    metrics = METRICS if config.perplexity else tuple(name for name in METRICS if name != PERPLEXITY)
    return Defaults(judge="alias", metrics=metrics)


@hookimpl(optionalhook=True)
def ke_reproductions() -> list[ReproductionSpec]:
    """Offer the paper's tables 2 to 6 and figures 4 to 6."""
    return reproductions_in("ke_plugin_recoe", "recoe")
