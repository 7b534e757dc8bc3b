"""Convert records to cases: the edited question, another wording, and questions about details of the paragraph."""

from __future__ import annotations

from attrs import evolve, field, frozen

from ke_benchmarks import SUB_QUESTION, both_phases, not_blank, some_not_blank, text_edit
from ke_core.plugin import EFFICACY, PARAPHRASE, Case, Entity, Gold, Query


def case(record: UnkebenchRecord) -> Case:
    """Convert one record. Every query goes to the unedited model too: UnKEBench has no pre-edit answers."""
    edit = text_edit(record.question.strip(), record.answer.strip())
    own = Query(id="edit", texts=(record.question.strip(),), gold=_gold(record.answer), edit=edit.id)
    asked = {
        EFFICACY: (own,),
        PARAPHRASE: (evolve(own, id="rephrase", texts=(record.para_question.strip(),), edit=None),),
        SUB_QUESTION: tuple(
            Query(id=f"sub-{place}", texts=(question.strip(),), gold=_gold(answer))
            for place, (question, answer) in enumerate(
                zip(record.sub_question, record.sub_answer, strict=True), start=1
            )
        ),
    }
    return Case(
        id=str(record.id),
        edits=(edit,),
        probes=tuple(probe for aspect, queries in asked.items() for probe in both_phases(aspect, queries, (edit.id,))),
    )


def _gold(text: str) -> Gold:
    return Gold(entities=(Entity(label=text.strip()),))


@frozen(kw_only=True)
class UnkebenchRecord:
    """One record. ``answer``: the new paragraph. ``sub_question`` and ``sub_answer`` are parallel."""

    id: int
    question: str = field(validator=not_blank)
    para_question: str = field(validator=not_blank)
    answer: str = field(validator=not_blank)
    sub_question: tuple[str, ...] = field(validator=some_not_blank)
    sub_answer: tuple[str, ...] = field(validator=some_not_blank)

    def __attrs_post_init__(self) -> None:
        """Reject sub-questions without an answer, and answers without a question."""
        if len(self.sub_question) != len(self.sub_answer):
            raise ValueError(f"{len(self.sub_question)} sub_question for {len(self.sub_answer)} sub_answer")
