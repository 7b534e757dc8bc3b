"""Judge ``set``: an answer is a list whose members are compared with the gold set."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_core.plugin import JudgeSpec, hookimpl, option


@frozen(kw_only=True)
class SetConfig:
    """Options. CompKE does not define splitting and matching; the defaults are our choice."""

    match: Literal["exact", "contains"] = option(
        "exact = an item is a name and nothing else; contains = an item contains a name as whole words", "exact"
    )
    extras: bool = option(
        "true = an answer that names the whole set and more is right too; of the metric's scores "
        "only edit-wise depends on it",
        default=False,
    )


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Register ``set``."""
    return [
        JudgeSpec(
            name="set",
            summary="splits the answer into a set; right if it names every member of the gold set and nothing else",
            config=SetConfig,
            build="ke_plugin_set.judge:SetJudge",
            cite="CompKE, section 5 and appendix D.3, which do not define splitting and matching",
        )
    ]
