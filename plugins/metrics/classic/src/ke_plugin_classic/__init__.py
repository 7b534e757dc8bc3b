"""Metric ``classic``: efficacy, paraphrase and locality of edits, by probability and as generated."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl


@frozen(kw_only=True)
class ClassicConfig:
    """How two objects of different length are compared, and with what texts generated ones are."""

    compare: Literal["mean", "sum"] = field(
        default="mean",
        metadata={
            "help": "log-probability of an object: mean over its tokens (as ROME and MEMIT are evaluated), or their sum"
        },
    )
    references: str = field(
        default="",
        metadata={
            "help": "for consistency: a JSON file of texts by relation and object, as ROME's attribute_snippets.json",
            "file": True,
        },
    )


def build(config: ClassicConfig) -> Metric:
    """The metric. Raises BadConfig for a file that holds no references."""
    from ke_plugin_classic.metric import Classic  # noqa: PLC0415  built late
    from ke_plugin_classic.texts import ReferenceTexts, read  # noqa: PLC0415  built late

    return Classic(config=config, references=read(config.references) if config.references else ReferenceTexts())


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``classic``."""
    return [
        MetricSpec(
            name="classic",
            summary="efficacy, paraphrase and locality of edits: new object against old one, and what is generated",
            config=ClassicConfig,
            build=build,
            cite="Meng et al. 2022, ROME, section 3.3 (CounterFact); the counts of wins are those of its evaluation",
            columns={
                "efficacy-probability": "efficacy new>old",
                "efficacy": "efficacy written",
                "paraphrase-probability": "para- phrase new>old",
                "paraphrase": "para- phrase written",
                "locality-probability": "locality own>new",
                "locality": "locality same text",
                "locality-word": "locality same word",
            },
            tables={
                "how far ahead the right object is: mean difference of probabilities": {
                    "efficacy-magnitude": "efficacy new-old",
                    "paraphrase-magnitude": "para- phrase new-old",
                    "locality-magnitude": "locality own-new",
                },
                "what follows from the edit, and texts about its subject": {
                    "portability": "portability written",
                    "fluency": "fluency",
                    "consistency": "consistency",
                },
            },
            counts={
                "efficacy": "edits generated correctly",
                "paraphrase": "paraphrases generated correctly",
                "locality": "unrelated answers unchanged",
            },
            measures={"fluency": "bits"},
        )
    ]
