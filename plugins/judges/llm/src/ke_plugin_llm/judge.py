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
        paragraph = " ".join(_trimmed(sentence) for sentence in held)
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
            found = (*found, Finding(item=reply.outcome, label=NOT_SUPPORT, note="the thoughts have no answer"))
        return Judgment(verdict=Verdict.UNSURE if _answered(item) else Verdict.WRONG, findings=found)


def _answered(item: Item) -> bool:
    return item.answer.outcome == "answered" and bool(item.answer.text.strip())


def _listed(split: object) -> tuple[str, ...]:
    return split if isinstance(split, tuple) else ()


def _of(found: Mapping[str, Finding], at: int) -> tuple[Finding, ...]:
    return tuple(finding for name, finding in found.items() if name.startswith(f"{at}/"))


def _labeled(item: str, written: str, labels: Sequence[str], unsure: str) -> Finding:
    return Finding(item=item, label=parse_label(written, labels) or unsure, note=written.strip())


def _trimmed(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _run(session: Session[Any] | None, procedures: Mapping[str, Procedure[Any]]) -> dict[str, Any]:
    """Return the findings of each procedure. A failure due to one prompt (too long, refused) is a finding."""
    if not procedures:
        return {}
    if session is None:
        raise KEError("judge llm needs a model", hint="pass --judge-model [SOURCE:]ID")
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
            hint="judgments so far are saved; fix the cause and run the same command again",
        )
    label = SUPPORT_UNSURE if name.endswith("/support") else FACT_UNSURE
    return Finding(item=failure.error, label=label, note=why)


PLACE = re.compile(r"\{(\w+)\}")
MARKED = re.compile(r"^[\s*#_]*label[\s*_]*:(.*)$", re.IGNORECASE | re.MULTILINE)
LISTED = re.compile(r"^\s*(?:[-*\u2022\u2013]|\d{1,3}[.)])\s+(\S.*?)\s*$")
AROUND = " \t*_`\"'.<>[]"


def filled(template: str, **values: str) -> str:
    """Return ``template`` with its placeholders replaced, each value on one line.

    Placeholders inside values are not replaced. Values are joined to one line so that they cannot add lines such as a
    label.
    """
    return PLACE.sub(lambda place: " ".join(values[place[1]].split()) if place[1] in values else place[0], template)


def parse_label(written: str, labels: Sequence[str]) -> str:
    """Return the label after the last ``Label:``; empty if there is none, or if it is not a valid label."""
    found = MARKED.findall(written)
    given = re.sub(r"[\s_]+", "-", found[-1].strip(AROUND).casefold()) if found else ""
    return given if given in labels else ""


def listed(written: str, *, cut: bool) -> tuple[str, ...]:
    """Return the distinct items of the list that ``written`` begins with, in order, without the last one if the text
    was ``cut`` off.
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
