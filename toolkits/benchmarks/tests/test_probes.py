"""The probes of a single edit."""

from __future__ import annotations

import pytest

from ke_benchmarks import single_edit_probes
from ke_core.plugin import Entity, Gold, Query

OWN = Query(
    id="edit",
    texts=("Where is the Tower?",),
    cloze="The Tower is in",
    gold=Gold(entities=(Entity(label="Rome"),)),
    pre_edit=Gold(entities=(Entity(label="Paris"),)),
    edit="e",
)


def near(answer: str) -> Query:
    gold = Gold(entities=(Entity(label=answer),))
    return Query(id="near-1", texts=("Where is the Gate?",), cloze="The Gate is in", gold=gold)


def test_a_locality_question_compares_its_answer_with_the_new_object() -> None:
    probes = {probe.id: probe for probe in single_edit_probes(OWN, [near("Berlin")])}
    assert probes["locality-probability"].queries[0].continuations == (" Berlin", " Rome")


@pytest.mark.parametrize("answer", ["Rome", "ROME "])
def test_a_locality_question_with_the_new_object_as_answer_is_refused(answer: str) -> None:
    with pytest.raises(ValueError, match=r"query near-1: its answer 'Rome' is also .* new object.*Leave"):
        single_edit_probes(OWN, [near(answer)])
