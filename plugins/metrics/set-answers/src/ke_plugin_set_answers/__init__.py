"""Metric ``set-answers``: what edits added to an answer, what they left in it, and what they took out (CompKE)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl


@frozen(kw_only=True)
class SetAnswersConfig:
    """CompKE does not say what counts where nothing was added, or nothing retained."""

    empty: Literal["exclude", "one", "zero"] = field(
        default="exclude",
        metadata={
            "help": "a question to which the edits add nothing (or of whose answer they leave nothing): exclude = not "
            "in the mean of Aug (of Ret); one, zero = counts as that. Acc is the mean of the two means in any case"
        },
    )


def build(config: SetAnswersConfig) -> Metric:
    """The metric of that configuration."""
    from ke_plugin_set_answers.metric import SetAnswers  # noqa: PLC0415  built late

    return SetAnswers(config=config)


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``set-answers``."""
    return [
        MetricSpec(
            name="set-answers",
            summary="added and retained answers (Aug, Ret, Acc), with precision, deletion and exact match beside them",
            config=SetAnswersConfig,
            build=build,
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
                "Acc by question, the best of the wordings, and how many questions have nothing to add or to retain": {
                    "acc-question": "Acc by question",
                    "any-aug": "any Aug",
                    "any-ret": "any Ret",
                    "any-exact": "any exact",
                    "empty-aug": "no Aug",
                    "empty-ret": "no Ret",
                }
            },
            averages={"acc": ("aug", "ret")},
        )
    ]
