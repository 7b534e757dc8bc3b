"""Dataset ``atlas``: multi-hop questions and counterfactual edits about countries and cities. Needs no data file."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_benchmarks import HIDE, mask_option
from ke_core.plugin import SINGLE_ASPECTS, DatasetSpec, hookimpl, option


@frozen(kw_only=True)
class AtlasConfig:
    """Options of the dataset. The facts and the edits are always the same."""

    mask: bool = mask_option(HIDE)
    view: Literal["cases", "edits"] = option(
        "cases = multi-hop questions; edits = each distinct edit is a case of its own, with its fact "
        "in two prompt formats and ten facts of the same relation that must not change",
        "cases",
    )


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register ``atlas``."""
    return [
        DatasetSpec(
            name="atlas",
            summary="two- and three-hop questions about countries, capitals, currencies, languages (embedded, offline)",
            config=AtlasConfig,
            build="ke_plugin_atlas.dataset:Atlas",
            cite="after Zhong et al. 2023, MQuAKE, section 3; facts from GeoNames (CC BY 4.0) and countryinfo (MIT)",
            aspects=(*SINGLE_ASPECTS, "instance", "multi-hop"),
            styles=("direct", "cot"),
            metrics=("multi-hop", "retrieval"),
            judge="alias",
            hides=lambda config: bool(config.mask),
        )
    ]
