"""Dataset ``counterfact``: one counterfactual edit per case, with paraphrases and neighbors (ROME)."""

from __future__ import annotations

from attrs import frozen, validators

from ke_benchmarks import Variant, data_dir_option
from ke_core.plugin import FLUENCY, SINGLE_ASPECTS, Dataset, DatasetSpec, hookimpl, option

STYLES = ("direct",)
COUNTERFACT = Variant(
    name="counterfact",
    family="counterfact",
    summary="21,919 single counterfactual edits with paraphrases and neighbors",
    file="counterfact.json",
    url="https://rome.baulab.info/data/dsets/counterfact.json",
    license="MIT (of the ROME project, github.com/kmeng01/rome; the file itself states none)",
    cite="""@article{meng2022locating,
  title   = {Locating and Editing Factual Associations in {GPT}},
  author  = {Meng, Kevin and Bau, David and Andonian, Alex and Belinkov, Yonatan},
  journal = {Advances in Neural Information Processing Systems},
  volume  = {35},
  year    = {2022},
  note    = {arXiv:2202.05262}
}""",
    published={"cases": 21_919},
)


@frozen(kw_only=True)
class CounterfactConfig:
    """Options: the folder of the file, and the queries of a case."""

    data_dir: str | None = data_dir_option("counterfact.json", "counterfact")
    openings: int = option(
        "how many of a case's openings about the subject are continued by 100 tokens, for fluency "
        "and consistency (the file has up to 10)",
        0,
        validators.ge(0),
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
