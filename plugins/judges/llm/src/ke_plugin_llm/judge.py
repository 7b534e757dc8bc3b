"""What a language model says of the thoughts before an answer.

::

    for each answer with thoughts:                          split:   thoughts -> facts
        for each fact:                                      fact:    case's facts, fact -> label
        the answer, if the thoughts came to one             support: question, thoughts, answer -> label

The verdict is UNSURE, since nobody was asked whether the answer is right; WRONG where there is no answer. Everything
else is in the findings, each with what the model wrote. What it wrote is never taken for more than it says: a text
without a label of the set is ``fact-unsure`` or ``support-unsure``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from attrs import field, frozen

from ke_core.plugin import (
    CONSISTENT,
    FACT_UNSURE,
    INCONSISTENT,
    NO_THOUGHTS,
    NOT_SUPPORT,
    SUPPORT,
    SUPPORT_UNSURE,
    UNRELATED,
    Failure,
    Finding,
    Generate,
    Generated,
    Item,
    Judgment,
    KEError,
    Procedure,
    Session,
    Verdict,
    prompt_text,
    sentences,
    thoughts_of,
)
from ke_plugin_llm import LLMConfig

PACKAGE = "ke_plugin_llm"
FACTS, SUPPORTS = (CONSISTENT, INCONSISTENT, UNRELATED), (SUPPORT, NOT_SUPPORT)
SPLIT_STOP, FACT_STOP, SUPPORT_STOP = ("\nText:",), ("\nParagraph:",), ("\nQuestion:",)
"""Where a model that goes on writes the next example: what follows is about nothing that was asked."""


@frozen(kw_only=True)
class LLMJudge:
    """Asks the session's model; ``prompts`` by the names of their files."""

    config: LLMConfig
    prompts: Mapping[str, str] = field(factory=dict)

    @classmethod
    def of(cls, config: LLMConfig) -> Self:
        """With its prompts read. Raises BadConfig."""
        names = ("split", "fact", "support")
        found = {name: prompt_text(PACKAGE, f"{name}.txt", config.prompts, option="llm.prompts") for name in names}
        return cls(config=config, prompts=found)

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """One judgment an item, in order.

        Raises KEError where the model fails: nothing is judged by another rule instead (V15).
        """
        thoughts = [thoughts_of(item.answer) for item in items]
        splits = {
            f"{at}/split": self._split(thought)
            for at, (item, thought) in enumerate(zip(items, thoughts, strict=True))
            if self.config.asks != "support" and thought and item.facts
        }
        facts = _run(session, splits)
        asked: dict[str, Procedure[Finding]] = {}
        for at, (item, thought) in enumerate(zip(items, thoughts, strict=True)):
            for number, fact in enumerate(_listed(facts.get(f"{at}/split"))):
                asked[f"{at}/fact/{number}"] = self._fact(fact, item.facts)
            if self.config.asks != "facts" and thought and _answered(item):
                asked[f"{at}/support"] = self._support(item, thought)
        found = _run(session, asked)
        return [
            self._judgment(item, thought, facts.get(f"{at}/split"), _of(found, at))
            for at, (item, thought) in enumerate(zip(items, thoughts, strict=True))
        ]

    def _split(self, thoughts: str) -> Procedure[tuple[str, ...] | Finding]:
        """The facts in ``thoughts``; where the model lists none, a finding that says so."""
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
        paragraph = " ".join(_ended(sentence) for sentence in held)
        prompt = filled(self.prompts["fact"], paragraph=paragraph, fact=fact)
        written: Generated = yield Generate(prompt=prompt, max_tokens=self.config.tokens, stop=FACT_STOP)
        return _labeled(fact, written.text, FACTS, FACT_UNSURE)

    def _support(self, item: Item, thoughts: str) -> Procedure[Finding]:
        answer = item.answer.text
        prompt = filled(self.prompts["support"], question=item.query.texts[0], thoughts=thoughts, answer=answer)
        written: Generated = yield Generate(prompt=prompt, max_tokens=self.config.tokens, stop=SUPPORT_STOP)
        return _labeled(answer, written.text, SUPPORTS, SUPPORT_UNSURE)

    def _judgment(self, item: Item, thoughts: str, split: object, found: tuple[Finding, ...]) -> Judgment:
        reply = item.answer
        if isinstance(split, Finding):
            found = (split, *found)
        if not thoughts:
            found = (Finding(item=reply.text, label=NO_THOUGHTS),)
        elif not _answered(item) and self.config.asks != "facts":
            found = (*found, Finding(item=reply.outcome, label=NOT_SUPPORT, note="the thoughts came to no answer"))
        return Judgment(verdict=Verdict.UNSURE if _answered(item) else Verdict.WRONG, findings=found)


def _answered(item: Item) -> bool:
    return item.answer.outcome == "answered" and bool(item.answer.text.strip())


def _listed(split: object) -> tuple[str, ...]:
    return split if isinstance(split, tuple) else ()


def _of(found: Mapping[str, Finding], at: int) -> tuple[Finding, ...]:
    return tuple(finding for name, finding in found.items() if name.startswith(f"{at}/"))


def _labeled(item: str, written: str, labels: Sequence[str], unsure: str) -> Finding:
    return Finding(item=item, label=label_in(written, labels) or unsure, note=written.strip())


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _run(session: Session[Any] | None, procedures: Mapping[str, Procedure[Any]]) -> dict[str, Any]:
    """What each procedure found. What fails for its own prompt alone (too long, refused) is a finding."""
    if not procedures:
        return {}
    if session is None:
        raise KEError("judge llm needs a model to ask", hint="say which with --judge-model [SOURCE:]ID")
    found = session.engine.run(procedures)
    for name, result in found.items():
        if isinstance(result, Failure):
            found[name] = _failed(name, result)
    return found


def _failed(name: str, failure: Failure) -> Finding:
    why = f"{failure.error}: {failure.message}"
    if not failure.particular:
        raise KEError(
            f"the judge's model failed ({why})",
            hint="what is judged stays on record; mend it and give the same command again",
        )
    label = SUPPORT_UNSURE if name.endswith("/support") else FACT_UNSURE
    return Finding(item=failure.error, label=label, note=why)


PLACE = re.compile(r"\{(\w+)\}")
MARKED = re.compile(r"^[\s*#_]*label[\s*_]*:(.*)$", re.IGNORECASE | re.MULTILINE)
LISTED = re.compile(r"^\s*(?:[-*\u2022\u2013]|\d{1,3}[.)])\s+(\S.*?)\s*$")
AROUND = " \t*_`\"'.<>[]"


def filled(template: str, **values: str) -> str:
    """``template`` with its places filled in, each value in one line.

    In one pass, so that nothing in a value is taken for a place; in one line, so that a value cannot add lines such as
    a label of its own.
    """
    return PLACE.sub(lambda place: " ".join(values[place[1]].split()) if place[1] in values else place[0], template)


def label_in(written: str, labels: Sequence[str]) -> str:
    """The label after the last ``Label:``; empty where there is none, or what stands there is not of the set."""
    found = MARKED.findall(written)
    given = re.sub(r"[\s_]+", "-", found[-1].strip(AROUND).casefold()) if found else ""
    return given if given in labels else ""


def listed(written: str, *, cut: bool) -> tuple[str, ...]:
    """The items of the list that ``written`` begins with, each once, in order. Without the last one where the end
    of the text was ``cut`` off.
    """
    items: list[str] = []
    for line in written.strip().splitlines():
        match = LISTED.match(line)
        if match is None:
            break
        items.append(match[1])
    else:
        if cut:
            items = items[:-1]
    return tuple(dict.fromkeys(items))
