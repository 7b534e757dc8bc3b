"""MQuAKE-Remastered datasets: MQuAKE corrected, with edits hidden from cases that they would contaminate."""

from __future__ import annotations

from functools import partial

from attrs import frozen

from ke_benchmarks import ReproductionSpec, mask_option, reproductions_in
from ke_core.plugin import Dataset, DatasetSpec, hookimpl
from ke_plugin_mquake import MquakeConfig, variant_spec
from ke_plugin_mquake_remastered.variants import VARIANTS, RemasteredVariant

MASK = "hide from each case the edits that contradict its own path"


@frozen(kw_only=True)
class RemasteredConfig(MquakeConfig):
    """Options of the three masked datasets: those of MQuAKE, with masking on."""

    mask: bool = mask_option(f"{MASK} (on, as published)", default=True)


@frozen(kw_only=True)
class RemasteredFixedConfig(MquakeConfig):
    """Options of CF-6334, whose edits are active for all cases."""

    mask: bool = mask_option(f"{MASK} (off: its edited cases do not need it)")


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register every variant."""
    return [
        variant_spec(variant, RemasteredConfig if variant.masked else RemasteredFixedConfig, partial(build, variant))
        for variant in VARIANTS
    ]


def build(variant: RemasteredVariant, config: MquakeConfig) -> Dataset:
    """Build the dataset of one variant."""
    from ke_plugin_mquake_remastered.dataset import Remastered  # noqa: PLC0415  built late

    return Remastered(variant=variant, config=config)


@hookimpl(optionalhook=True)
def ke_reproductions() -> list[ReproductionSpec]:
    """Register tables 1 to 4 and 8 to 12 of the paper."""
    return reproductions_in("ke_plugin_mquake_remastered", "mquake-remastered")
