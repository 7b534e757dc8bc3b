"""Dataset ``atlas``: multi-hop questions and counterfactual edits over countries and cities, ready without a file."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.plugin import SINGLE_ASPECTS, Dataset, DatasetSpec, hookimpl


@frozen(kw_only=True)
class AtlasConfig:
    """What is asked of which view; the facts and the edits are always the same."""

    mask: bool = field(
        default=False,
        metadata={"help": "hide from each question the edits that contradict the facts its answer rests on"},
    )
    view: Literal["cases", "edits"] = field(
        default="cases",
        metadata={
            "help": "cases = multi-hop questions; edits = every distinct edit is a case of its own, asked its own fact "
            "in two forms and ten facts of the same relation that must stay"
        },
    )


def build(config: AtlasConfig) -> Dataset:
    """The dataset."""
    from ke_plugin_atlas.dataset import Atlas  # noqa: PLC0415  built late

    return Atlas(config=config)


def hides(config: AtlasConfig) -> bool:
    """Only when asked to."""
    return config.mask


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Offer ``atlas``."""
    return [
        DatasetSpec(
            name="atlas",
            summary="two- and three-hop questions over countries, capitals, currencies, languages (embedded, offline)",
            config=AtlasConfig,
            build=build,
            cite="after Zhong et al. 2023, MQuAKE, section 3; facts from GeoNames (CC BY 4.0) and countryinfo (MIT)",
            aspects=(*SINGLE_ASPECTS, "instance", "multi-hop"),
            styles=("direct", "cot"),
            metrics=("multi-hop", "retrieval"),
            judge="alias",
            hides=hides,
        )
    ]
