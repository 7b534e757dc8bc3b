"""Convert records to cases. A question is also the cloze: its answer follows it."""

from __future__ import annotations

from attrs import Attribute, evolve, field, frozen

from ke_benchmarks import all_have_labels, has_label, not_blank, question_edit, single_edit_probes, some_not_blank
from ke_core.plugin import Case, Entity, Gold, Query


def case(name: str, record: ZsreRecord) -> Case:
    """Convert one record. The target is ``alt`` if it was read, otherwise the true answer."""
    true = Entity(label=record.answers[0].strip(), aliases=_others(record.answers))
    other = Entity(label=record.alt.strip()) if isinstance(record, ZsreAlternative) else None
    new, old = (other, _different(true, other)) if other else (true, None)
    edit = question_edit(record.src.strip(), record.subject, new, old)
    question = Query(
        id="edit",
        texts=(record.src.strip(),),
        cloze=record.src.strip(),
        gold=Gold(entities=(new,)),
        pre_edit=Gold(entities=(old,)) if old else None,
        edit=edit.id,
    )
    again = evolve(question, id="rephrase", texts=(record.rephrase.strip(),), cloze=None, edit=None)
    return Case(
        id=name,
        edits=(edit,),
        probes=single_edit_probes(question, _near(record, new), paraphrases=(again,)),
        facts_before=(edit.before,) if edit.before else (),
        facts_after=(edit.after,) if edit.after else (),
    )


def _near(record: ZsreRecord, new: Entity) -> tuple[Query, ...]:
    """Return the unrelated question, unless its answer is the edit's new one, which could not reveal a change."""
    if record.loc_ans.strip().casefold() == new.label.casefold():
        return ()
    text = record.loc.strip()
    text = text if text.endswith("?") else f"{text}?"
    return (Query(id="near", texts=(text,), cloze=text, gold=Gold(entities=(Entity(label=record.loc_ans.strip()),))),)


def _different(true: Entity, other: Entity) -> Entity | None:
    """Return the old answer, unless the new one is a spelling of it."""
    return None if other.label.casefold() in {name.casefold() for name in true.names} else true


def _others(answers: tuple[str, ...]) -> tuple[str, ...]:
    first, *rest = (answer.strip() for answer in answers)
    return tuple(answer for answer in dict.fromkeys(rest) if answer != first)


def _blank_or_labeled(instance: object, attribute: Attribute[str], value: str) -> None:
    if value.strip():
        has_label(instance, attribute, value)


@frozen(kw_only=True)
class ZsreRecord:
    """One question. ``answers``: spellings of the true answer. ``ZsreAlternative`` reads ``alt``.

    ``loc``: an unrelated question in lower case without a question mark; ``loc_ans``: its answer.
    """

    subject: str = field(validator=has_label)
    src: str = field(validator=not_blank)
    rephrase: str = field(validator=not_blank)
    answers: tuple[str, ...] = field(validator=[some_not_blank, all_have_labels])
    loc: str = field(validator=not_blank)
    loc_ans: str = field(validator=not_blank)


@frozen(kw_only=True)
class ZsreAlternative(ZsreRecord):
    """One question with a wrong answer, which may be blank."""

    alt: str = field(validator=_blank_or_labeled)
