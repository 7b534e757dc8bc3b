"""Metric ``lm-eval``: the tasks of lm-evaluation-harness before and after editing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from attrs import frozen, validators

from ke_core.plugin import EditorRequest, MetricSpec, ModelMetric, hookimpl, option

OFFLINE = "ke_choice,ke_context,ke_generate,ke_text"
"""The tasks of this package. They need no download."""
FRACTIONS = ("acc", "exact_match", "mcq-generated")
"""Beginnings of the names of the harness's metrics that are fractions."""
LOWER = ("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "ter", "brier_score")


@frozen(kw_only=True)
class LmEvalConfig:
    """Options: the tasks, and how many documents and examples."""

    tasks: str = option("names of tasks, groups or tags of lm-evaluation-harness, separated by commas", OFFLINE)
    limit: int = option("documents per task, the first ones; 0 = all. AlphaEdit uses 100", 100, validators.ge(0))
    fewshot: int | None = option(
        "examples in each prompt; by default as the task defines it", None, validators.optional(validators.ge(0))
    )
    choices: Literal["scored", "generated"] = option(
        "multiple choice by log-probabilities, or by the letter that the model generates (aspect TASK/mcq-generated)",
        "scored",
    )
    path: str = option("a folder with task files of your own (YAML)", "", file=True, words=("",))


class Units(Mapping[str, str]):
    """The unit of each aspect: none for perplexity, correlations (mcc) and other numbers that are not fractions."""

    def __getitem__(self, aspect: str) -> str:
        name = metric_of(aspect)
        if name.startswith(FRACTIONS) and not name.endswith("-mcc"):
            raise KeyError(aspect)
        return ""

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class LowerIsBetter(frozenset[str]):
    """The aspects of which smaller values are better: perplexities and error rates of any task."""

    def __contains__(self, aspect: object) -> bool:
        return metric_of(str(aspect)) in LOWER


def metric_of(aspect: str) -> str:
    """Return the harness's metric in an aspect: ``acc`` for ``hellaswag/acc``."""
    return aspect.partition("/")[2].partition("/")[0]


def requests(config: LmEvalConfig) -> tuple[EditorRequest, ...]:
    """Return the requests of all tasks. Raises BadConfig for an unknown task or missing data."""
    from ke_plugin_lm_eval.suite import suite_of  # noqa: PLC0415  imports the harness

    return suite_of(config).requests


def build(config: LmEvalConfig) -> ModelMetric:
    """Build the metric."""
    from ke_plugin_lm_eval.metric import LmEval  # noqa: PLC0415  built late

    return LmEval(config)


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``lm-eval``."""
    return [
        MetricSpec(
            name="lm-eval",
            summary="general abilities: any task of lm-evaluation-harness, before and after editing",
            config=LmEvalConfig,
            build=build,
            measures=Units(),
            contrary=LowerIsBetter(),
            requests=requests,
            cite="Gao et al., The Language Model Evaluation Harness, doi:10.5281/zenodo.10256836",
        )
    ]
