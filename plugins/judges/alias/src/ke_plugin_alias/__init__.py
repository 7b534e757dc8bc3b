"""Judge ``alias``: an answer is right if it names the gold entity, by its label or by an alias."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.plugin import Judge, JudgeSpec, hookimpl

Rule = Literal["exact", "contains", "prefix", "substring"]
Normalization = Literal["none", "case", "text"]


@frozen(kw_only=True)
class AliasConfig:
    """The defaults are the comparison of MQuAKE's released runner."""

    match: Literal["exact", "contains", "substring"] = field(
        default="exact",
        metadata={
            "help": "an answer to a question is nothing but the gold name, or contains it: between word borders, or "
            "(substring) inside words too"
        },
    )
    normalize: Normalization = field(
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


@frozen(kw_only=True)
class ContainmentConfig:
    """The comparison of RippleEdits: one of the names occurs somewhere in the text, be it question or cloze."""

    rule: Literal["contains", "substring"] = field(
        default="contains",
        metadata={
            "help": "contains = between word borders; substring = inside words too: RippleEdits' released code. Names "
            "of one character (no digits) count under neither, as there"
        },
    )
    normalize: Normalization = field(
        default="none", metadata={"help": "what is evened out before comparing, as for the judge alias"}
    )


def build(config: AliasConfig) -> Judge:
    """The judge of that configuration."""
    from ke_plugin_alias.judge import Alias  # noqa: PLC0415  built late

    return Alias(config=config)


def build_containment(config: ContainmentConfig) -> Judge:
    """The same judge, with one rule for questions and clozes."""
    from ke_plugin_alias.judge import Alias  # noqa: PLC0415  built late

    return Alias(config=AliasConfig(match=config.rule, cloze=config.rule, normalize=config.normalize), single=False)


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Offer ``alias`` and ``containment``."""
    return [
        JudgeSpec(
            name="alias",
            summary="right if the answer names the gold entity, by its label or by an alias",
            config=AliasConfig,
            build=build,
            cite="Zhong et al. 2023, MQuAKE, section 3.2 and its released runner",
        ),
        JudgeSpec(
            name="containment",
            summary="right if a name of the gold entity occurs anywhere in what was written",
            config=ContainmentConfig,
            build=build_containment,
            cite="Cohen et al. 2024, RippleEdits, section 5.1",
        ),
    ]
