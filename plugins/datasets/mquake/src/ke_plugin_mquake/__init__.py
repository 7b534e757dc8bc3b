"""The datasets of MQuAKE, which ask whether what follows from an edited fact changes with it."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.plugin import SINGLE_ASPECTS, Dataset, DatasetSpec, hookimpl
from ke_plugin_mquake.variants import CITE, VARIANTS, Variant

STYLES = ("direct", "cot")


@frozen(kw_only=True)
class MquakeConfig:
    """The options that all variants share: ``-o mquake.mask=true``."""

    data_dir: str | None = field(
        default=None,
        metadata={
            "help": "folder that holds the published JSON (or a folder mquake/ with it); else KE_DATA_DIR, cache"
        },
    )
    prompts: str = field(
        default="own",
        metadata={
            "help": "demonstrations: own = written for this package; published = the authors' files, from the data "
            "folder; else a folder with recall.json, multi-hop.txt, cot.txt and decompose.txt"
        },
    )
    mask: bool = field(
        default=False,
        metadata={"help": "hide from each case the edits that contradict its own path (MQuAKE-Remastered)"},
    )
    view: Literal["cases", "edits"] = field(
        default="cases",
        metadata={
            "help": "cases as published; edits = every distinct edit is a case of its own, asked its own fact in two "
            "forms and ten facts of the same relation that must stay"
        },
    )


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Offer every variant."""
    return [_spec(variant) for variant in VARIANTS]


def _spec(variant: Variant) -> DatasetSpec:
    def build(config: MquakeConfig) -> Dataset:
        from ke_plugin_mquake.dataset import Mquake  # noqa: PLC0415  built late

        return Mquake(variant=variant, config=config)

    return DatasetSpec(
        name=variant.name,
        family="mquake",
        summary=variant.summary,
        config=MquakeConfig,
        build=build,
        cite=CITE,
        aspects=(*SINGLE_ASPECTS, "instance", "multi-hop"),
        styles=STYLES,
        metrics=("multi-hop",),
        judge="alias",
        hides=lambda config: bool(config.mask),
    )
