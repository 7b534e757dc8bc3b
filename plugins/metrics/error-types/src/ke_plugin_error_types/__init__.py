"""Metric ``error-types``: what wrong answers after an edit are like (RippleEdits, section 5.4)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl


@frozen(kw_only=True)
class ErrorTypesConfig:
    """Which answers are looked at, and which words say that nothing is known."""

    phrases: str = field(
        default="v1",
        metadata={
            "help": "v1 = the first version of this package's list of abstaining phrases (English); else a UTF-8 text "
            "file, one phrase a line",
            "file": True,
            "words": ("v1",),
        },
    )
    of: Literal["all", "tests"] = field(
        default="all",
        metadata={"help": "all answers; or tests: without those to the edits' own questions (RippleEdits, table 7)"},
    )


def build(config: ErrorTypesConfig) -> Metric:
    """The metric. Raises BadConfig for a file without phrases."""
    from ke_plugin_error_types.metric import ErrorTypes, read  # noqa: PLC0415  built late

    return ErrorTypes(phrases=read(config.phrases), own=config.of == "all")


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``error-types``."""
    return [
        MetricSpec(
            name="error-types",
            summary="of the wrong answers after editing: the old answer stayed, nothing is said to be known, or noise",
            config=ErrorTypesConfig,
            build=build,
            cite="Cohen et al. 2024, RippleEdits, section 5.4 (labeled by hand there, by rule here)",
            by=("aspect", "hops", "edits", "subset"),
            columns={"no-effect": "no effect", "abstaining": "abstaining", "noise": "noise"},
            labels=("no-effect", "abstaining", "noise"),
            higher_is_better=False,
        )
    ]
