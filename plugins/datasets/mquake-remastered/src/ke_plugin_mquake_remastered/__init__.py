"""The datasets of MQuAKE-Remastered: MQuAKE corrected, with edits hidden where they would contaminate a case."""

from __future__ import annotations

from attrs import field, frozen

from ke_benchmarks import ReproductionSpec, reproductions_in
from ke_core.plugin import SINGLE_ASPECTS, Dataset, DatasetSpec, hookimpl
from ke_plugin_mquake import STYLES, MquakeConfig
from ke_plugin_mquake_remastered.variants import VARIANTS, RemasteredVariant

MASK = "hide from each case the edits that contradict its own path"


@frozen(kw_only=True)
class RemasteredConfig(MquakeConfig):
    """The options of the three sets that the paper masks: those of MQuAKE, with masking on."""

    mask: bool = field(default=True, metadata={"help": f"{MASK} (on: the sets are published for it)"})


@frozen(kw_only=True)
class RemasteredFixedConfig(MquakeConfig):
    """The options of CF-6334, whose edits are all in force for everybody."""

    mask: bool = field(default=False, metadata={"help": f"{MASK} (off: its edited cases need none)"})


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Offer every variant."""
    return [_spec(variant) for variant in VARIANTS]


def _spec(variant: RemasteredVariant) -> DatasetSpec:
    def build(config: MquakeConfig) -> Dataset:
        from ke_plugin_mquake_remastered.dataset import Remastered  # noqa: PLC0415  built late

        return Remastered(variant=variant, config=config)

    return DatasetSpec(
        name=variant.name,
        family=variant.family,
        summary=variant.summary,
        config=RemasteredConfig if variant.masked else RemasteredFixedConfig,
        build=build,
        cite=variant.cite,
        aspects=(*SINGLE_ASPECTS, "instance", "multi-hop"),
        styles=STYLES,
        metrics=("multi-hop", "retrieval"),
        judge="alias",
        hides=lambda config: bool(config.mask),
    )


@hookimpl(optionalhook=True)
def ke_reproductions() -> list[ReproductionSpec]:
    """Offer the paper's tables 1 to 4 and 8 to 12."""
    return reproductions_in("ke_plugin_mquake_remastered", "mquake-remastered")
