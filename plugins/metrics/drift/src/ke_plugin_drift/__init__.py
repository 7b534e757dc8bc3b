"""Metric ``drift``: how much editing changes a model on unrelated text."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Likelihood, MetricSpec, ModelMetric, hookimpl, option


@frozen(kw_only=True)
class DriftConfig:
    """Options: the text."""

    text: str = option(
        "own = 20 passages written for this package; or a UTF-8 text file, one passage per line",
        "own",
        file=True,
        words=("own",),
    )


def build(_config: DriftConfig) -> ModelMetric:
    """Build the metric. Its options concern the requests only."""
    from ke_plugin_drift.metric import Drift  # noqa: PLC0415  built late

    return Drift()


def requests(config: DriftConfig) -> tuple[Likelihood, ...]:
    """Return the scoring requests for each passage and its next word. Raises BadConfig for a file without passages."""
    from ke_plugin_drift.passages import read  # noqa: PLC0415  the files are read when a run needs them

    return read(config.text)


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``drift``."""
    return [
        MetricSpec(
            name="drift",
            summary="perplexity of unrelated text and divergence of the next word, after editing against before",
            config=DriftConfig,
            build=build,
            columns={
                "perplexity": "perplexity",
                "perplexity-ratio": "perplexity ratio",
                "next-word-kl": "next-word KL",
            },
            measures={"perplexity": "", "perplexity-ratio": "", "next-word-kl": "nats"},
            higher_is_better=False,
            requests=requests,
        )
    ]
