"""Judge ``probability``: the right object must be the most probable one."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_core.plugin import Judge, JudgeSpec, hookimpl, option


@frozen(kw_only=True)
class ProbabilityConfig:
    """Options: how two objects of different length are compared."""

    compare: Literal["mean", "sum"] = option(
        "log-probability of an object: mean over its tokens, or their sum; as in the metric classic", "mean"
    )


def build(config: ProbabilityConfig) -> Judge:
    """Build the judge."""
    from ke_plugin_probability.judge import Probability  # noqa: PLC0415  built late

    return Probability(config=config)


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Register ``probability``."""
    return [
        JudgeSpec(
            name="probability",
            summary="right if the gold object is the most probable of the compared objects; text answers are unsure",
            config=ProbabilityConfig,
            build=build,
            cite="Meng et al. 2022, ROME, section 3.3",
            scored=True,
        )
    ]
