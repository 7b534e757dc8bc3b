"""How often an answer names an object that one of the case's own edits injected, where that object is wrong.

A question counts if some object that the edits add is no right answer to it and does not stand in its words: there the
answer could parrot. Asked before the edits, the same rate says how often the object is named by chance; it is then of
questions that both models are asked, and of objects that are wrong at both times. An answer counts whatever its
verdict: a list that holds the right things beside an injected one is parroting too, and recall (CompKE's Aug) takes it
for success.
"""

from __future__ import annotations

from collections.abc import Iterator

from ke_core.plugin import EDITS_WITHHELD, CaseRecord, Entity, Observed, Value, holds, observed, words

ASPECT = "parrot-rate"
NONE = "no injected object is wrong there"


class ParrotRate:
    """Reads records; nothing else."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """One observation for each answer."""
        injected = [entity for edit in record.case.edits for entity in edit.added]
        for seen in observed(record, "before", "after"):
            if seen.phase == "before" and seen.probe.phase != "both":
                continue
            control = seen.phase == "after" and not record.edited
            why = seen.missing or (EDITS_WITHHELD if control else "") or seen.wordless
            wrong = [name for entity in injected for name in _wrong(entity, seen)]
            why = why or ("" if wrong else NONE)
            text = "" if seen.answer is None else seen.answer.text
            yield seen.value(ASPECT, None if why else float(holds(text, wrong)), why)


def _wrong(entity: Entity, seen: Observed) -> list[str]:
    """The names under which ``entity`` would be a wrong answer; none if it is a right one, or is asked about."""
    then = seen.query.stale if seen.phase == "before" else None  # right after the edits: the same objects count then
    gold = (*seen.query.gold.entities, *(then.entities if then else ()))
    right = {words(name) for answer in gold for name in answer.names}
    if any(answer.key == entity.key for answer in gold) or any(words(name) in right for name in entity.names):
        return []
    names = [name for name in entity.names if words(name)]
    return [] if holds(seen.query.texts[0], names) else names
