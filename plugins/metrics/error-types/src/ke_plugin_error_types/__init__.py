"""Metric ``error-types``: classes of wrong answers after an edit (RippleEdits, section 5.4)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl, option


@frozen(kw_only=True)
class ErrorTypesConfig:
    """Options: the answers to classify, and the abstaining phrases."""

    phrases: str = option(
        "v1 = the first version of this package's list of abstaining phrases (English); or a UTF-8 "
        "text file, one phrase per line",
        "v1",
        file=True,
        words=("v1",),
    )
    answers: Literal["all", "tests"] = option(
        "all; tests = without those to the edits' own questions (RippleEdits, table 7)", "all"
    )


def build(config: ErrorTypesConfig) -> Metric:
    """Build the metric. Raises BadConfig for a file without phrases."""
    from ke_plugin_error_types.metric import ErrorTypes, read  # noqa: PLC0415  built late

    return ErrorTypes(phrases=read(config.phrases), own=config.answers == "all")


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``error-types``."""
    return [
        MetricSpec(
            name="error-types",
            summary="wrong answers after editing by type: pre-edit answer (no effect), abstaining, or noise",
            config=ErrorTypesConfig,
            build=build,
            cite="Cohen et al. 2024, RippleEdits, section 5.4 (manual labels there, a rule here)",
            by=("aspect", "hops", "edits", "subset"),
            columns={"no-effect": "no effect", "abstaining": "abstaining", "noise": "noise"},
            labels=("no-effect", "abstaining", "noise"),
            higher_is_better=False,
        )
    ]
