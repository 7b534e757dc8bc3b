"""Dataset ``counterfact``: one counterfactual edit per case, with paraphrases and neighbors (ROME)."""

from __future__ import annotations

from attrs import field, frozen, validators

from ke_benchmarks import data_dir_option
from ke_core.plugin import FLUENCY, SINGLE_ASPECTS, Dataset, DatasetSpec, hookimpl
from ke_plugin_counterfact.variants import COUNTERFACT

STYLES = ("direct",)


@frozen(kw_only=True)
class CounterfactConfig:
    """Options: the folder of the file, and the queries of a case."""

    data_dir: str | None = data_dir_option("counterfact.json", "counterfact")
    openings: int = field(
        default=0,
        validator=validators.ge(0),
        metadata={
            "help": "how many of a case's openings about the subject are continued by 100 tokens, for fluency "
            "and consistency (the file has up to 10)"
        },
    )


def build(config: CounterfactConfig) -> Dataset:
    """Build the dataset."""
    from ke_plugin_counterfact.dataset import Counterfact  # noqa: PLC0415  built late

    return Counterfact(variant=COUNTERFACT, config=config)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register ``counterfact``."""
    return [
        COUNTERFACT.spec(
            config=CounterfactConfig,
            build=build,
            family="counterfact",
            aspects=(*SINGLE_ASPECTS, FLUENCY),
            styles=STYLES,
            metrics=("classic",),
            judge="alias",
        )
    ]
