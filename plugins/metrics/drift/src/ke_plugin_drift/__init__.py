"""Metric ``drift``: what editing does to a model on text that has nothing to do with the edits."""

from __future__ import annotations

from attrs import field, frozen

from ke_core.plugin import Likelihood, MetricSpec, ModelMetric, hookimpl


@frozen(kw_only=True)
class DriftConfig:
    """Which text."""

    text: str = field(
        default="own",
        metadata={
            "help": "own = 20 passages written for this package; else a UTF-8 text file, one passage a line",
            "file": True,
            "words": ("own",),
        },
    )


def asks(config: DriftConfig) -> tuple[Likelihood, ...]:
    """How probable each passage is, and what may follow its first half. Raises BadConfig for a file without any."""
    from ke_plugin_drift.passages import read  # noqa: PLC0415  the files are read when a run needs them

    return read(config.text)


def build(_config: DriftConfig) -> ModelMetric:
    """The metric."""
    from ke_plugin_drift.metric import Drift  # noqa: PLC0415  built late

    return Drift()


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``drift``."""
    return [
        MetricSpec(
            name="drift",
            summary="perplexity of held-out text and divergence of the next word, after editing against before",
            config=DriftConfig,
            build=build,
            columns={
                "perplexity": "perplexity",
                "perplexity-ratio": "ratio to unedited",
                "next-word-kl": "KL of next word",
            },
            measures={"perplexity": "", "perplexity-ratio": "", "next-word-kl": "nats"},
            higher_is_better=False,
            asks=asks,
        )
    ]
