"""Metric ``correct-flip``: how often editing changes a right answer to the counterfactual one (ReCoE)."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import MetricSpec, hookimpl, option

SCHEMES = ("superlative", "comparative", "counting", "sorting", "aggregation", "subtraction")
"""Schemes in the order of the paper's tables."""
QA, FLIP, KEPT, CA = "qa", "correct-flip", "kept", "counterfactual"
AVERAGE = "average"


@frozen(kw_only=True)
class CorrectFlipConfig:
    """Options: the style of the unedited model's answers for editors with their own prompts."""

    before: str = option(
        "for editors whose own prompts are not sent to the unedited model: the style in which it "
        "must have been right (direct or cot)",
        "direct",
    )


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``correct-flip``."""
    flips = {f"{FLIP}-{scheme}": scheme for scheme in SCHEMES}
    right = {f"{QA}-{scheme}": scheme for scheme in SCHEMES}
    return [
        MetricSpec(
            name="correct-flip",
            summary="of the questions answered correctly before editing, the percentage with the counterfactual "
            "answer after it",
            config=CorrectFlipConfig,
            build="ke_plugin_correct_flip.metric:CorrectFlip",
            cite="Hua et al. 2024, Propagation and Pitfalls (ReCoE), sections 4.3 and 4.4",
            by=("scheme",),
            columns={
                QA: "QA accuracy",
                FLIP: "correct flip",
                KEPT: "kept",
                CA: "counterfactual (all questions)",
                "edit-wise": "edit-wise",
            },
            tables={
                "correct flip by scheme, and the unweighted mean over schemes": {**flips, f"{FLIP}-{AVERAGE}": AVERAGE},
                "QA accuracy by scheme, and the unweighted mean over schemes": {**right, f"{QA}-{AVERAGE}": AVERAGE},
            },
            averages={f"{FLIP}-{AVERAGE}": tuple(flips), f"{QA}-{AVERAGE}": tuple(right)},
        )
    ]
