"""Dataset ``zsre``: one question with an edited answer per case, a rephrased question and an unrelated one."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_benchmarks import Variant, data_dir_option
from ke_core.plugin import SINGLE_ASPECTS, Dataset, DatasetSpec, hookimpl, option

STYLES = ("direct",)
ZSRE = Variant(
    name="zsre",
    family="zsre",
    summary="questions of zsRE as single edits, each with a rephrased and an unrelated question",
    file="zsre_mend_eval.json",
    url="https://rome.baulab.info/data/dsets/zsre_mend_eval.json",
    license="MIT (of ROME and MEND, which publish it; the file states none); loc: Natural Questions, CC BY-SA 3.0",
    cite="""@inproceedings{levy2017zero,
  title     = {Zero-Shot Relation Extraction via Reading Comprehension},
  author    = {Levy, Omer and Seo, Minjoon and Choi, Eunsol and Zettlemoyer, Luke},
  booktitle = {Proceedings of the 21st Conference on Computational Natural Language Learning},
  year      = {2017},
  note      = {arXiv:1706.04115; selected by Mitchell et al. 2022, MEND, arXiv:2110.11309}
}""",
)


@frozen(kw_only=True)
class ZsreConfig:
    """Options: the folder of the file, and the target of an edit."""

    data_dir: str | None = data_dir_option("zsre_mend_eval.json", "zsre")
    target: Literal["alt", "answers"] = option(
        "the new answer of an edit: alt = a wrong answer (MEND); answers = the true answer (ROME, MEMIT)", "alt"
    )


def build(config: ZsreConfig) -> Dataset:
    """Build the dataset."""
    from ke_plugin_zsre.dataset import Zsre  # noqa: PLC0415  built late

    return Zsre(variant=ZSRE, config=config)


@hookimpl
def ke_datasets() -> list[DatasetSpec]:
    """Register ``zsre``."""
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
