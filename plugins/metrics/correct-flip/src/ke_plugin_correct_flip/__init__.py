"""Metric ``correct-flip``: how often editing turns a right answer into the counterfactual one (ReCoE)."""

from __future__ import annotations

from attrs import field, frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl

SCHEMES = ("superlative", "comparative", "counting", "sorting", "aggregation", "subtraction")
"""In the order of the paper's tables."""
QA, FLIP, KEPT, CA = "qa", "correct-flip", "kept", "counterfactual"
AVERAGE = "average"


@frozen(kw_only=True)
class CorrectFlipConfig:
    """Which answer is the one before, where the prompt after was not put to the unedited model."""

    before: str = field(
        default="direct",
        metadata={
            "help": "for editors whose own prompts were not put to the unedited model: the style in which it must "
            "have been right (direct or cot)"
        },
    )


def build(config: CorrectFlipConfig) -> Metric:
    """The metric."""
    from ke_plugin_correct_flip.metric import CorrectFlip  # noqa: PLC0415  built late

    return CorrectFlip(config=config)


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``correct-flip``."""
    flips = {f"{FLIP}-{scheme}": scheme for scheme in SCHEMES}
    right = {f"{QA}-{scheme}": scheme for scheme in SCHEMES}
    return [
        MetricSpec(
            name="correct-flip",
            summary="of the questions answered right before editing, the share answered with the counterfactual after",
            config=CorrectFlipConfig,
            build=build,
            cite="Hua et al. 2024, Propagation and Pitfalls (ReCoE), sections 4.3 and 4.4",
            by=("scheme",),
            columns={QA: "QA accuracy", FLIP: "correct_flip", KEPT: "kept", CA: "CA of all", "edit-wise": "edit-wise"},
            tables={
                "correct_flip by scheme, and the plain mean over schemes": {**flips, f"{FLIP}-{AVERAGE}": AVERAGE},
                "QA accuracy by scheme, and the plain mean over schemes": {**right, f"{QA}-{AVERAGE}": AVERAGE},
            },
            averages={f"{FLIP}-{AVERAGE}": tuple(flips), f"{QA}-{AVERAGE}": tuple(right)},
        )
    ]
