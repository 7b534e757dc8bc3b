"""Judge ``set``: an answer is a list, and its members are compared with those of the gold set."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.plugin import Judge, JudgeSpec, hookimpl


@frozen(kw_only=True)
class SetConfig:
    """CompKE leaves splitting and matching open; the defaults are our choice."""

    match: Literal["exact", "contains"] = field(
        default="exact", metadata={"help": "a listed item is nothing but a name, or contains one between word borders"}
    )
    extras: bool = field(
        default=False,
        metadata={
            "help": "an answer that names the whole set and more is right too; the metric's scores do not depend on it"
        },
    )


def build(config: SetConfig) -> Judge:
    """The judge of that configuration."""
    from ke_plugin_set.judge import SetJudge  # noqa: PLC0415  built late

    return SetJudge(config=config)


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Offer ``set``."""
    return [
        JudgeSpec(
            name="set",
            summary="splits the answer into a set; right if it names every member of the gold set and nothing else",
            config=SetConfig,
            build=build,
            cite="CompKE, section 5 and appendix D.3; splitting and matching are not stated there",
        )
    ]
