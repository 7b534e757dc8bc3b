"""Metric ``ripple``: the side effects of an edit by the six criteria of RippleEdits."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_core.plugin import MetricSpec, hookimpl, option

CRITERIA = {
    "logical-generalization": "LG",
    "compositionality-1": "CI",
    "compositionality-2": "CII",
    "subject-aliasing": "SA",
    "preservation": "PV",
    "relation-specificity": "RS",
}
"""Aspect of a probe to the paper's short name, in the order of its tables."""
EACH = "-each"


@frozen(kw_only=True)
class RippleConfig:
    """Options. If paper and released code differ, the defaults follow the paper."""

    edits: Literal["successful", "all"] = option(
        "successful = only edits after which the new object is named (section 5.1); all = failed edits too",
        "successful",
    )
    conditions: Literal["checked", "ignored"] = option(
        "checked = only tests whose conditions the unedited model meets; ignored = every test", "checked"
    )
    aliasing: Literal["file", "old", "none"] = option(
        "condition of a test with another name of the subject: file = as in the data (published "
        "files require the new object before the edit); old = the unedited model names the old "
        "object; none = no condition",
        "file",
    )
    targets: Literal["any", "all"] = option(
        "with several gold objects: any = one suffices (section 5.1); all = all are required (released code)", "any"
    )
    unit: Literal["queries", "tests"] = option(
        "unit of an edit's average: queries (section 5.1), or tests as grouped in the data, some of "
        "which need one right query of two (released code)",
        "queries",
    )


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``ripple``."""
    return [
        MetricSpec(
            name="ripple",
            summary="six criteria of what an edit must and must not change, for successful edits and applicable tests",
            config=RippleConfig,
            build="ke_plugin_ripple.metric:Ripple",
            cite="Cohen et al. 2024, RippleEdits, sections 3 and 5.1",
            by=("criterion", "subset"),
            columns={**CRITERIA, "ripple": "Avg", "edit-success": "edits", "executed": "tests"},
            averages={"ripple": tuple(CRITERIA)},
            shared={aspect + EACH: aspect for aspect in CRITERIA},
        )
    ]
