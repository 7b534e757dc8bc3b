"""The verdict on an answer: it names what is right after the edit, what was right before it, or neither.

Only ``Answer.text`` is read, not ``raw`` or the question: a name in the prompt is not an answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import Finding, Gold, Item, Judgment, Query, Session, Verdict
from ke_plugin_alias import AliasConfig, Normalization, Rule
from ke_plugin_alias.names import GoldNames, is_distinctive, named
from ke_plugin_alias.numbers import digits_joined, joined, number, numbers


@frozen(kw_only=True)
class NameMatches:
    """Matches of one gold in an answer: the findings, and whether they are sufficient."""

    findings: tuple[Finding, ...] = ()
    enough: bool = False


@frozen
class Alias:
    """Compares each answer with the gold names, then with the pre-edit ones.

    ``single``: whether a name of one letter counts, unless the rule excludes it.
    """

    config: AliasConfig
    single: bool = True

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """Return one judgment for each item, in order. Needs no session."""
        del session
        return [self._one(item) for item in items]

    def _one(self, item: Item) -> Judgment:
        reply = item.answer
        if reply.outcome != "answered":
            return _judgment(Verdict.WRONG, Finding(item=reply.outcome, label="outcome"))
        return self._compare(item.query, reply.text)

    def _compare(self, query: Query, answer: str) -> Judgment:
        gold, pre_edit = self._names(query.gold), self._names(query.pre_edit)
        if not gold.spelled:
            return _judgment(Verdict.UNSURE, Finding(item="", label="no-gold-name"))
        rule = self.config.cloze if query.form == "cloze" else self.config.match
        seen = self._look(answer, rule, query.gold, gold, pre_edit, label="gold")
        if seen.enough:
            return _judgment(Verdict.RIGHT, *seen.findings)
        old = (
            NameMatches()
            if query.pre_edit is None
            else self._look(answer, rule, query.pre_edit, pre_edit, gold, label="pre-edit")
        )
        verdict = Verdict.PRE_EDIT if old.enough else Verdict.WRONG
        return _judgment(verdict, *seen.findings, *old.findings)

    def _look(
        self, answer: str, rule: Rule, gold: Gold, names: GoldNames, other: GoldNames, *, label: str
    ) -> NameMatches:
        """Return the names of ``gold`` in the answer. A longer name of the ``other`` gold does not count as a shorter
        one.
        """
        if gold.require == "number":
            found = self._numbers(answer, rule, names, other)
        else:
            found = named(normal(answer, self.config.normalize), rule, names, other)
        spelled = [names.spelled[name] for name in dict.fromkeys(found) if self.single or is_distinctive(name)]
        findings = tuple(
            Finding(item=name, label=label, entity=gold.entities[index].key) for name, at in spelled for index in at
        )
        order = list(dict.fromkeys(index for _name, at in spelled for index in at))
        return NameMatches(findings=findings, enough=_enough(gold, order))

    def _numbers(self, answer: str, rule: Rule, names: GoldNames, other: GoldNames) -> list[str]:
        """Return numbers by their value, then names that are not numbers ("twenty-one", "21 moons") as text."""
        found = [name for name in map(str, numbers(answer, rule)) if name in names.spelled]
        literal = GoldNames(spelled={name: at for name, at in names.spelled.items() if number(name) is None})
        text = normal(joined(answer), self.config.normalize)
        return [*found, *named(text, "contains" if rule == "substring" else rule, literal, other)]

    def _names(self, gold: Gold | None) -> GoldNames:
        if gold is None:
            return GoldNames()
        if gold.require == "number":
            return GoldNames.of(gold.entities, self._number)
        return GoldNames.of(gold.entities, self._text)

    def _number(self, name: str) -> list[str]:
        value = number(name)
        return self._text(joined(name)) if value is None else [str(value)]

    def _text(self, name: str) -> list[str]:
        """Return the name, and under ``text`` also with its hyphens as spaces and its spaces as hyphens."""
        key = normal(name, self.config.normalize)
        return [key, key.replace("-", " "), key.replace(" ", "-")] if self.config.normalize == "text" else [key]


def _enough(gold: Gold, order: list[int]) -> bool:
    """Return whether these entities (indexes, in order of first mention) satisfy the gold answer."""
    if not order:
        return False  # an empty gold requires nothing, but must not make every answer right
    if gold.require == "ordered":
        return order == list(range(len(gold.entities)))
    return gold.require != "all" or len(order) == len(gold.entities)


def _judgment(verdict: Verdict, *findings: Finding) -> Judgment:
    return Judgment(verdict=verdict, findings=findings)


MARKS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]")
"""The diacritics of Latin, Greek, Cyrillic, Hebrew and Arabic. Those of other scripts tell names apart."""
JOINED = re.compile(r"[.'\u2019`\u00b4]")  # "U.S." is "US", "O'Brien" is "OBrien"
PUNCTUATION = re.compile(r"(?!(?<=\w)-(?=\w))[^\w\s]|_")  # a hyphen within a word stays
ARTICLES = re.compile(r"(?<![\w-])(?:a|an|the)(?![\w-])")


def normal(text: str, how: Normalization) -> str:
    """Return ``text`` without surrounding spaces, normalized as ``how`` states."""
    text = text.strip()
    if how == "none":
        return text
    text = text.casefold()
    if how == "case":
        return text
    text = MARKS.sub("", unicodedata.normalize("NFKD", digits_joined(text))).replace("\u2010", "-")
    text = unicodedata.normalize("NFC", text)
    text = " ".join(PUNCTUATION.sub(" ", JOINED.sub("", text)).split())
    # a name that consists of articles keeps them ("The The")
    return " ".join(ARTICLES.sub(" ", text).split()) or text
