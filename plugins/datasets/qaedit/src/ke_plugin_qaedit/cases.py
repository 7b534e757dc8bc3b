"""Convert records to cases. Each edited question is asked twice: its answer is generated, and its target is scored."""

from __future__ import annotations

from attrs import evolve, field, frozen

from ke_benchmarks import FORCED, both_phases, has_label, not_blank, question_edit, scored_query
from ke_core.plugin import EFFICACY, LOCALITY, PARAPHRASE, Case, Entity, Gold, Query


def case(name: str, record: QAEditRecord, decoy: str, unrelated: int) -> Case:
    """Convert one record. ``decoy``: the target of another record. ``unrelated``: how many locality items are asked.

    Every query goes to the unedited model too. The pre-edit answer is unknown, so the new one is right in both phases.
    """
    new = Entity(label=record.target.strip())
    edit = question_edit(record.prompt.strip(), record.subject, new)
    own = Query(id="edit", texts=(record.prompt.strip(),), gold=Gold(entities=(new,)), edit=edit.id)
    again = evolve(own, id="rephrase", texts=(record.rephrase.strip(),), edit=None)
    asked = {
        EFFICACY: (own,),
        PARAPHRASE: (again,),
        EFFICACY + FORCED: (scored_query(own, decoy),),
        PARAPHRASE + FORCED: (scored_query(again, decoy),),
        LOCALITY: tuple(_near(place, item) for place, item in enumerate(record.locality[:unrelated], start=1)),
    }
    return Case(
        id=name,
        edits=(edit,),
        probes=tuple(probe for aspect, queries in asked.items() for probe in both_phases(aspect, queries, (edit.id,))),
        facts_after=(edit.after,) if edit.after else (),
        tags={"source": record.source},
    )


def _near(place: int, item: QAEditUnrelated) -> Query:
    answer = Entity(label=item.loc_ans.strip())
    return Query(id=f"near-{place}", texts=(item.loc.strip(),), gold=Gold(entities=(answer,)))


@frozen(kw_only=True)
class QAEditUnrelated:
    """A question about something else. Only the agreement of both models' answers is scored."""

    loc: str = field(validator=not_blank)
    loc_ans: str = field(validator=not_blank)


@frozen(kw_only=True)
class QAEditRecord:
    """One record. ``source``: NQ, TQA or SQA. ``id`` is not read: 1,000 records share 961 of them."""

    source: str = field(validator=not_blank)
    prompt: str = field(validator=not_blank)
    target: str = field(validator=has_label)
    subject: str = field(validator=has_label)
    rephrase: str = field(validator=not_blank)
    locality: tuple[QAEditUnrelated, ...]
