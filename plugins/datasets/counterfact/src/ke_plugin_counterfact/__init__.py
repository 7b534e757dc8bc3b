"""Dataset ``counterfact``: one counterfactual edit a case, with paraphrases and neighbours (ROME)."""

from __future__ import annotations

from attrs import field, frozen

from ke_core.plugin import SINGLE_ASPECTS, Dataset, DatasetSpec, hookimpl
from ke_plugin_counterfact.variants import COUNTERFACT

STYLES = ("direct",)


@frozen(kw_only=True)
class CounterfactConfig:
    """Where the file is."""

    data_dir: str | None = field(
        default=None,
        metadata={
            "help": "folder that holds counterfact.json (or a folder counterfact/ with it); else KE_DATA_DIR, cache"
        },
    )


def build(config: CounterfactConfig) -> Dataset:
    """The dataset."""
    from ke_plugin_counterfact.dataset import Counterfact  # noqa: PLC0415  built late

    return Counterfact(variant=COUNTERFACT, config=config)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Offer ``counterfact``."""
    return [
        DatasetSpec(
            name=COUNTERFACT.name,
            family=COUNTERFACT.family,
            summary=COUNTERFACT.summary,
            config=CounterfactConfig,
            build=build,
            cite=COUNTERFACT.cite,
            aspects=SINGLE_ASPECTS,
            styles=STYLES,
            metrics=("classic",),
            judge="alias",
        )
    ]
