"""Judge ``nli``: a cross-encoder for textual entailment reads what was thought before an answer."""

from __future__ import annotations

from attrs import field, frozen, validators

from ke_core.plugin import FACT_LABELS, Judge, JudgeSpec, hookimpl


@frozen(kw_only=True)
class NLIConfig:
    """Which classifier, and how sure it has to be."""

    model: str = field(
        default="cross-encoder/nli-deberta-v3-small",
        metadata={
            "help": "a local folder or a hub id: a sequence classifier with the labels entailment, neutral and "
            "contradiction",
            "file": True,
        },
    )
    sure: float = field(
        default=0.5,
        validator=[validators.ge(0.0), validators.le(1.0)],
        metadata={"help": "a label that is less probable than this is no label: fact-unsure"},
    )


def build(config: NLIConfig) -> Judge:
    """The judge of that configuration. Raises ModelUnavailable, BadConfig."""
    from ke_plugin_nli.judge import NLIJudge  # noqa: PLC0415  built late: torch and transformers

    return NLIJudge.load(config)


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Offer ``nli``."""
    return [
        JudgeSpec(
            name="nli",
            summary="a cross-encoder labels the facts of a chain of thought; asks no language model",
            config=NLIConfig,
            build=build,
            cite="Bowman et al. 2015, SNLI (the task); labels of Hua et al. 2024, ReCoE, section 5.2",
            labels={"facts": FACT_LABELS},
            metrics=("fact-recall",),
        )
    ]
