"""Dataset ``zsre``: one question a case whose answer is edited, with a rephrased and an unrelated question."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_benchmarks import data_dir_option
from ke_core.plugin import SINGLE_ASPECTS, Dataset, DatasetSpec, hookimpl
from ke_plugin_zsre.variants import ZSRE

STYLES = ("direct",)


@frozen(kw_only=True)
class ZsreConfig:
    """Where the file is, and which of its answers an edit makes true."""

    data_dir: str | None = data_dir_option("zsre_mend_eval.json", "zsre")
    target: Literal["alt", "answers"] = field(
        default="alt",
        metadata={
            "help": "what an edit makes true: alt = another answer than the true one (MEND); answers = the true one "
            "(ROME, MEMIT)"
        },
    )


def build(config: ZsreConfig) -> Dataset:
    """The dataset."""
    from ke_plugin_zsre.dataset import Zsre  # noqa: PLC0415  built late

    return Zsre(variant=ZSRE, config=config)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Offer ``zsre``."""
    return [
        ZSRE.spec(
            config=ZsreConfig,
            build=build,
            family="zsre",
            aspects=SINGLE_ASPECTS,
            styles=STYLES,
            metrics=("classic",),
            judge="alias",
        )
    ]
