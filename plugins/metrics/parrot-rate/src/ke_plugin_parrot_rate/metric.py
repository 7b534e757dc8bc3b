"""How often an answer names an object that one of the case's own edits injected, although that object is wrong.

A question counts if at least one object that the edits add is not a right answer and does not occur in the question.
The rate before editing shows how often the object is named by chance; it includes only questions that both models get,
and objects that are wrong at both times. The verdict does not matter: a list with all right items and an injected one
is parroting too, although recall (CompKE's Aug) counts it as success.
"""

from __future__ import annotations

from collections.abc import Iterator

from ke_core.plugin import EDITS_WITHHELD, CaseRecord, Entity, Observed, Value, holds, observed, words

ASPECT = "parrot-rate"
NONE = "no injected object is wrong here"


class ParrotRate:
    """Computes values from records."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield one observation for each answer."""
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
    """Return the names of ``entity`` that would be a wrong answer; none if it is right or occurs in the question."""
    then = (
        seen.query.pre_edit if seen.phase == "before" else None
    )  # right after the edits, so that both phases use the same objects
    gold = (*seen.query.gold.entities, *(then.entities if then else ()))
    right = {words(name) for answer in gold for name in answer.names}
    if any(answer.key == entity.key for answer in gold) or any(words(name) in right for name in entity.names):
        return []
    names = [name for name in entity.names if words(name)]
    return [] if holds(seen.query.texts[0], names) else names
