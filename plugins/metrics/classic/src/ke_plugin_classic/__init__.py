"""Metric ``classic``: efficacy, paraphrase and locality of edits, by probability and by generated text."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl, option


@frozen(kw_only=True)
class ClassicConfig:
    """Options: how two objects are compared, and the reference texts for consistency."""

    compare: Literal["mean", "sum"] = option(
        "log-probability of an object: mean over its tokens (as in ROME's and MEMIT's evaluation), or their sum", "mean"
    )
    references: str = option(
        "for consistency: a JSON file of texts by relation and object, like ROME's attribute_snippets.json",
        "",
        file=True,
    )


def build(config: ClassicConfig) -> Metric:
    """Build the metric. Raises BadConfig for an invalid file of references."""
    from ke_plugin_classic.metric import Classic  # noqa: PLC0415  built late
    from ke_plugin_classic.texts import ReferenceTexts, read  # noqa: PLC0415  built late

    return Classic(config=config, references=read(config.references) if config.references else ReferenceTexts())


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``classic``."""
    return [
        MetricSpec(
            name="classic",
            summary="efficacy, paraphrase and locality of edits, by probability and by generated text",
            config=ClassicConfig,
            build=build,
            cite="Meng et al. 2022, ROME, section 3.3 (CounterFact); comparisons as in its evaluation code",
            columns={
                "efficacy-probability": "efficacy (probability)",
                "efficacy": "efficacy (generation)",
                "paraphrase-probability": "paraphrase (probability)",
                "paraphrase": "paraphrase (generation)",
                "locality-probability": "locality (probability)",
                "locality": "locality (same text)",
                "locality-word": "locality (same word)",
            },
            tables={
                "lead of the right object: mean difference of probabilities": {
                    "efficacy-magnitude": "efficacy (magnitude)",
                    "paraphrase-magnitude": "paraphrase (magnitude)",
                    "locality-magnitude": "locality (magnitude)",
                },
                "consequences of the edit, and texts about its subject": {
                    "portability": "portability",
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
            signed=frozenset({"efficacy-magnitude", "paraphrase-magnitude", "locality-magnitude"}),
        )
    ]
