"""Judge ``nli``: a cross-encoder for textual entailment labels the thoughts before an answer."""

from __future__ import annotations

from attrs import frozen, validators

from ke_benchmarks import FACT_LABELS
from ke_core.plugin import Judge, JudgeSpec, hookimpl, option


@frozen(kw_only=True)
class NLIConfig:
    """Options: the classifier, and its minimum probability."""

    model: str = option(
        "local folder or hub id of a sequence classifier with the labels entailment, neutral and contradiction",
        "cross-encoder/nli-deberta-v3-small",
        file=True,
    )
    sure: float = option(
        "minimum probability of a label; below it the label is fact-unsure",
        0.5,
        [validators.ge(0.0), validators.le(1.0)],
    )


def build(config: NLIConfig) -> Judge:
    """Build the judge. Raises ModelUnavailable, BadConfig."""
    from ke_plugin_nli.judge import NLIJudge  # noqa: PLC0415  built late: torch and transformers

    return NLIJudge.load(config)


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Register ``nli``."""
    return [
        JudgeSpec(
            name="nli",
            summary="a cross-encoder labels the facts in a chain of thought; needs no language model",
            config=NLIConfig,
            build=build,
            cite="Bowman et al. 2015, SNLI (the task); labels of Hua et al. 2024, ReCoE, section 5.2",
            labels={"facts": FACT_LABELS},
            metrics=("fact-recall",),
        )
    ]
