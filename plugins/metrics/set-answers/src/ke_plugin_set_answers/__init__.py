"""Metric ``set-answers``: what edits add to an answer set, keep in it, and remove from it (CompKE)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_core.plugin import MetricSpec, hookimpl, option


@frozen(kw_only=True)
class SetAnswersConfig:
    """Options. CompKE does not define the scores if nothing is added, or nothing retained."""

    empty: Literal["exclude", "one", "zero"] = option(
        "questions with nothing to add (for Aug) or nothing to retain (for Ret): exclude = not in "
        "the mean; one, zero = count as that. Acc is always the mean of the two means",
        "exclude",
    )


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``set-answers``."""
    return [
        MetricSpec(
            name="set-answers",
            summary="added and retained answers (Aug, Ret, Acc), with precision, deletion and exact match",
            config=SetAnswersConfig,
            build="ke_plugin_set_answers.metric:SetAnswers",
            cite="CompKE, section 5 and appendix D.3",
            by=("steps", "edits", "structure", "operation"),
            columns={
                "edit-wise": "edit-wise",
                "aug": "Aug",
                "ret": "Ret",
                "acc": "Acc",
                "exact": "exact",
                "precision": "precision",
                "deletion": "deleted",
                "pre-edit-recall": "pre-edit recall",
                "pre-edit-exact": "pre-edit exact",
            },
            tables={
                "Acc by question, the best of the wordings, and questions with nothing to add or to retain": {
                    "acc-question": "Acc by question",
                    "any-aug": "any Aug",
                    "any-ret": "any Ret",
                    "any-exact": "any exact",
                    "empty-aug": "nothing to add",
                    "empty-ret": "nothing to retain",
                }
            },
            averages={"acc": ("aug", "ret")},
        )
    ]
