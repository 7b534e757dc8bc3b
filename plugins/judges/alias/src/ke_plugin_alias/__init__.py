"""Judge ``alias``: an answer is right if it names the gold entity, by its label or by an alias."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.plugin import Judge, JudgeSpec, hookimpl

Rule = Literal["exact", "contains", "prefix"]
Normalisation = Literal["none", "case", "text"]


@frozen(kw_only=True)
class AliasConfig:
    """The defaults are the comparison of MQuAKE's released runner."""

    match: Literal["exact", "contains"] = field(
        default="exact",
        metadata={"help": "an answer to a question is nothing but the gold name, or contains it between word borders"},
    )
    normalise: Normalisation = field(
        default="none",
        metadata={
            "help": "before comparing: none = as written; case = fold case; text = also drop diacritics, punctuation, "
            "articles and extra spaces"
        },
    )
    cloze: Rule = field(
        default="prefix",
        metadata={"help": "a continuation of a cloze begins with the gold name, is nothing else, or contains it"},
    )


def build(config: AliasConfig) -> Judge:
    """The judge of that configuration."""
    from ke_plugin_alias.judge import Alias  # noqa: PLC0415  built late

    return Alias(config=config)


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Offer ``alias``."""
    return [
        JudgeSpec(
            name="alias",
            summary="right if the answer names the gold entity, by its label or by an alias",
            config=AliasConfig,
            build=build,
            cite="Zhong et al. 2023, MQuAKE, section 3.2 and its released runner",
        )
    ]
