"""Labels of a language model for the thoughts before an answer.

::

    for each answer with thoughts:                          split:   thoughts -> facts
        for each fact:                                      fact:    case's facts, fact -> label
        the answer, if the thoughts have one                support: question, thoughts, answer -> label

The verdict is UNSURE, because the answer itself is not judged, or WRONG if there is no answer. The findings contain
all labels with the model's output. An output without a valid label becomes ``fact-unsure`` or ``support-unsure``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from attrs import field, frozen

from ke_benchmarks import (
    CONSISTENT,
    FACT_UNSURE,
    INCONSISTENT,
    NO_THOUGHTS,
    NOT_SUPPORT,
    SUPPORT,
    SUPPORT_UNSURE,
    UNRELATED,
    paragraph,
    sentences,
    thoughts_of,
)
from ke_core.plugin import Finding, Generate, Generated, Item, Judgment, Procedure, Session, Verdict, prompt_text
from ke_plugin_llm import LLMConfig
from ke_plugin_llm.asking import answered, answers, filled, labeled

PACKAGE, NAME = "ke_plugin_llm", "llm"
FACTS, SUPPORTS = (CONSISTENT, INCONSISTENT, UNRELATED), (SUPPORT, NOT_SUPPORT)
SPLIT_STOP, FACT_STOP, SUPPORT_STOP = ("\nText:",), ("\nParagraph:",), ("\nQuestion:",)
"""Start of the next example, which a model may append: the text after it is ignored."""


@frozen(kw_only=True)
class LLMJudge:
    """Sends requests to the session's model; ``prompts`` by file name."""

    config: LLMConfig
    prompts: Mapping[str, str] = field(factory=dict)

    @classmethod
    def of(cls, config: LLMConfig) -> Self:
        """Create the judge and read its prompts. Raises BadConfig."""
        names = ("split", "fact", "support")
        found = {name: prompt_text(PACKAGE, f"{name}.txt", config.prompts, option="llm.prompts") for name in names}
        return cls(config=config, prompts=found)

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """Return one judgment for each item, in order.

        Raises KEError if the model fails: there is no fallback rule.
        """
        thoughts = [thoughts_of(item.answer) for item in items]
        splits = {
            f"{at}/split": self._split(thought)
            for at, (item, thought) in enumerate(zip(items, thoughts, strict=True))
            if self.config.label != "support" and thought and item.facts
        }
        facts = answers(session, splits, judge=NAME, unsure=_unsure)
        asked: dict[str, Procedure[Finding]] = {}
        for at, (item, thought) in enumerate(zip(items, thoughts, strict=True)):
            for number, fact in enumerate(_listed(facts.get(f"{at}/split"))):
                asked[f"{at}/fact/{number}"] = self._fact(fact, item.facts)
            if self.config.label != "facts" and thought and answered(item):
                asked[f"{at}/support"] = self._support(item, thought)
        found = answers(session, asked, judge=NAME, unsure=_unsure)
        return [
            self._judgment(item, thought, facts.get(f"{at}/split"), _of(found, at))
            for at, (item, thought) in enumerate(zip(items, thoughts, strict=True))
        ]

    def _split(self, thoughts: str) -> Procedure[tuple[str, ...] | Finding]:
        """Return the facts in ``thoughts``, or a finding that the model listed none."""
        if self.config.split == "sentences":
            return sentences(thoughts)
        written: Generated = yield Generate(
            prompt=filled(self.prompts["split"], thoughts=thoughts),
            max_tokens=self.config.split_tokens,
            stop=SPLIT_STOP,
        )
        facts = listed(written.text, cut=written.finish == "length")
        return facts or Finding(item=thoughts, label=FACT_UNSURE, note=written.text.strip())

    def _fact(self, fact: str, held: Sequence[str]) -> Procedure[Finding]:
        prompt = filled(self.prompts["fact"], paragraph=paragraph(held), fact=fact)
        written: Generated = yield Generate(prompt=prompt, max_tokens=self.config.tokens, stop=FACT_STOP)
        return labeled(fact, written.text, FACTS, FACT_UNSURE)

    def _support(self, item: Item, thoughts: str) -> Procedure[Finding]:
        answer = item.answer.text
        prompt = filled(self.prompts["support"], question=item.query.texts[0], thoughts=thoughts, answer=answer)
        written: Generated = yield Generate(prompt=prompt, max_tokens=self.config.tokens, stop=SUPPORT_STOP)
        return labeled(answer, written.text, SUPPORTS, SUPPORT_UNSURE)

    def _judgment(self, item: Item, thoughts: str, split: object, found: tuple[Finding, ...]) -> Judgment:
        reply = item.answer
        if isinstance(split, Finding):
            found = (split, *found)
        if not thoughts:
            found = (Finding(item=reply.text, label=NO_THOUGHTS),)
        elif not answered(item) and self.config.label != "facts":
            found = (*found, Finding(item=reply.outcome, label=NOT_SUPPORT, note="the thoughts have no answer"))
        return Judgment(verdict=Verdict.UNSURE if answered(item) else Verdict.WRONG, findings=found)


def _unsure(name: str) -> str:
    return SUPPORT_UNSURE if name.endswith("/support") else FACT_UNSURE


def _listed(split: object) -> tuple[str, ...]:
    return split if isinstance(split, tuple) else ()


def _of(found: Mapping[str, Finding], at: int) -> tuple[Finding, ...]:
    return tuple(finding for name, finding in found.items() if name.startswith(f"{at}/"))


LISTED = re.compile(r"^\s*(?:[-*\u2022\u2013]|\d{1,3}[.)])\s+(\S.*?)\s*$")


def listed(written: str, *, cut: bool) -> tuple[str, ...]:
    """Return the distinct items of the list that ``written`` begins with, in order, without the last one if the text
    was ``cut`` off.
    """
    items: list[str] = []
    for line in filter(str.strip, written.splitlines()):
        match = LISTED.match(line)
        if match is None:
            break
        items.append(match[1])
    else:
        if cut:
            items = items[:-1]
    return tuple(dict.fromkeys(items))
