"""Convert records to cases: the edit in one language, and every question in both, tagged by language."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import evolve, field, frozen

from ke_benchmarks import FORCED, both_phases, question_edit, scored_query
from ke_core.plugin import EFFICACY, LOCALITY, PARAPHRASE, PORTABILITY, Case, Entity, Gold, Probe, Query
from ke_plugin_mzsre import LANGUAGES

PREFIX = "nq question: "
"""The beginning of unrelated questions in the English halves. It is not part of the question."""


def halves(raw: Any, edit: str, other: str) -> Any:
    """Return a record with the half of the edit's language and the half of the other one. Raises ValueError."""
    if not isinstance(raw, dict):
        return raw
    for code in (edit, other):
        if code not in raw:
            raise ValueError(f"{code}: missing")
    return {"edit": raw[edit], "other": raw[other]}


@frozen(kw_only=True)
class BilingualCases:
    """Converts records. ``edit`` and ``other``: the published codes of the languages."""

    edit: str
    other: str

    def case(self, name: str, record: MzsreRecord, decoys: tuple[str, str]) -> Case:
        """Convert one record. ``decoys``: the targets of another record in both languages."""
        own = record.edit
        edit = question_edit(own.src.strip(), own.subject.strip(), Entity(label=own.alt.strip()))
        halves = ((self.edit, record.edit, decoys[0]), (self.other, record.other, decoys[1]))
        probes = [probe for code, half, decoy in halves for probe in self._probes(code, half, decoy, edit.id)]
        return Case(
            id=name,
            edits=(edit,),
            probes=tuple(probes),
            facts_after=(edit.after,) if edit.after else (),
            tags={"edit language": LANGUAGES[self.edit]},
        )

    def _probes(self, code: str, half: MzsreHalf, decoy: str, edit: str) -> Iterator[Probe]:
        """Yield the probes of one language. Questions without text or answer are absent."""
        language = LANGUAGES[code]
        tags = {"language": language}
        new = half.alt.strip()
        asked = {
            EFFICACY: ("edit", half.src, new),
            PARAPHRASE: ("rephrase", half.rephrase, new),
            PORTABILITY: ("portability", half.portability.question, half.portability.answer),
            LOCALITY: ("near", unrelated(half.loc), half.loc_ans),
        }
        for aspect, (name, text, answer) in asked.items():
            if not (text.strip() and answer.strip()):
                continue
            gold = Gold(entities=(Entity(label=answer.strip()),))
            query = Query(id=f"{name}-{language}", texts=(text.strip(),), gold=gold, tags=tags)
            if aspect == EFFICACY and code == self.edit:
                query = evolve(query, edit=edit)
            yield from both_phases(aspect, (query,), (edit,), name=f"{aspect}-{language}")
            if aspect in (EFFICACY, PARAPHRASE):
                scored = scored_query(query, decoy)
                yield from both_phases(aspect + FORCED, (scored,), (edit,), name=f"{aspect}{FORCED}-{language}")


def unrelated(text: str) -> str:
    """Return an unrelated question without its prefix. Questions with the prefix have no question mark."""
    text = text.strip()
    return f"{text.removeprefix(PREFIX).rstrip('?')}?" if text.startswith(PREFIX) else text


@frozen(kw_only=True)
class MzsreQuestion:
    """A question that follows from the edit."""

    question: str = field(default="", metadata={"key": "New Question"})
    answer: str = field(default="", metadata={"key": "New Answer"})


@frozen(kw_only=True)
class MzsreHalf:
    """A record in one language. ``alt``: the new answer. Translations may be blank."""

    subject: str
    src: str
    rephrase: str
    alt: str
    loc: str
    loc_ans: str
    portability: MzsreQuestion = MzsreQuestion()

    @property
    def is_editable(self) -> bool:
        """Whether it has a question, a subject and an answer."""
        return bool(self.src.strip() and self.subject.strip() and self.alt.strip())


@frozen(kw_only=True)
class MzsreRecord:
    """One record: the half in the edit's language, and the other half."""

    edit: MzsreHalf
    other: MzsreHalf
