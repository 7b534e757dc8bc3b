"""Judges ``alias``, ``containment`` and ``exact-match``: an answer is right if it names the gold entity."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_core.plugin import Judge, JudgeSpec, hookimpl, option

Rule = Literal["exact", "contains", "prefix", "substring"]
Normalization = Literal["none", "case", "text"]


@frozen(kw_only=True)
class AliasConfig:
    """Options. The defaults are the comparison in MQuAKE's released code."""

    match: Literal["exact", "contains", "substring"] = option(
        "how an answer to a question is compared: exact = it is the gold name; contains = it "
        "contains the name as whole words; substring = also inside words",
        "exact",
    )
    normalize: Normalization = option(
        "normalization before comparing: none; case = fold case; text = also drop diacritics, "
        "punctuation, articles and extra spaces",
        "none",
    )
    cloze: Rule = option(
        "how a continuation of a cloze is compared: prefix = it begins with the gold name; the others as for match",
        "prefix",
    )


@frozen(kw_only=True)
class ContainmentConfig:
    """The comparison of RippleEdits: one of the names occurs anywhere in the text, for questions and clozes."""

    rule: Literal["contains", "substring"] = option(
        "contains = as whole words; substring = also inside words, as in RippleEdits' released code. "
        "Names of one character (except digits) never count, as in that code",
        "contains",
    )
    normalize: Normalization = option("normalization before comparing, as in the judge alias", "none")


def build_containment(config: ContainmentConfig) -> Judge:
    """Build the judge ``containment``: the same with one rule for questions and clozes."""
    from ke_plugin_alias.judge import Alias  # noqa: PLC0415  built late

    return Alias(config=AliasConfig(match=config.rule, cloze=config.rule, normalize=config.normalize), single=False)


def build_exact_match(_config: object) -> Judge:
    """Build the judge ``exact-match``: the whole answer is compared, for questions and clozes."""
    from ke_plugin_alias.judge import Alias  # noqa: PLC0415  built late

    return Alias(config=AliasConfig(match="exact", cloze="exact", normalize="text"))


@hookimpl
def ke_judges() -> list[JudgeSpec]:
    """Register ``alias``, ``containment`` and ``exact-match``."""
    return [
        JudgeSpec(
            name="alias",
            summary="right if the answer names the gold entity, by its label or an alias",
            config=AliasConfig,
            build="ke_plugin_alias.judge:Alias",
            cite="Zhong et al. 2023, MQuAKE, section 3.2 and its released code",
        ),
        JudgeSpec(
            name="containment",
            summary="right if a name of the gold entity occurs anywhere in the output",
            config=ContainmentConfig,
            build=build_containment,
            cite="Cohen et al. 2024, RippleEdits, section 5.1",
        ),
        JudgeSpec(
            name="exact-match",
            summary="right if the whole answer is the gold entity's name, except case, punctuation and articles",
            build=build_exact_match,
            cite="Yang et al. 2025, The Mirage of Model Editing (WILD); Rajpurkar et al. 2016, SQuAD",
        ),
    ]
