"""The derived questions, and the values of known answers."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import Case, CaseRecord, Cloze, Edit, Entity, Fact, Failure, Probe, Query, Relation, Scored, Verdict
from ke_plugin_belief.metric import Belief
from ke_plugin_belief.probes import BeliefProbes, unsuitable
from ke_testing.examples import FREE_FORM, MOVE_GATE, MOVE_TOWER, TEXT_ONLY
from ke_testing.metric import MetricContract
from ke_testing.records import gold, outcome

SPEAKS = Relation(label="language")
OWN = Query(id="own", texts=("Who?",), gold=gold("x"))


def language(subject, old, new):
    """Return an edit of a cloze. ``old``: None if the dataset has no old object."""
    before, after = (
        name and Fact(subject=Entity(label=subject), relation=SPEAKS, objects=(Entity(label=name),))
        for name in (old, new)
    )
    cloze = Cloze(template="{} speaks", subject=subject)
    return Edit(id=subject, statement=f"{subject} speaks {new}", before=before, after=after, cloze=cloze)


EDITS = (MOVE_TOWER, MOVE_GATE, language("Ada", "English", "Thai"))
CASES = [
    Case(id=edit.id, edits=(edit,), probes=(Probe(id="own", aspect="efficacy", queries=(OWN,)),)) for edit in EDITS
]


def with_tests(case=CASES[0], cases=CASES):
    return evolve(case, probes=(*case.probes, *BeliefProbes(cases)(case)))


def cases_of(*edits):
    return [evolve(CASES[0], id=str(n), edits=(edit,)) for n, edit in enumerate(edits)]


def queries(case=None):
    case = case or with_tests()
    return {query.id.removeprefix("belief/"): query for probe in case.probes for query in probe.queries}


def record(choose, said=Verdict.RIGHT, *, case=None, phase="after", edited=True):
    """Return a record in which ``choose(query)`` is the chosen letter of a choice, or another reply."""
    case = case or with_tests()
    outcomes = {}
    for query in queries(case).values():
        chosen = choose(query) if query.continuations else None
        if isinstance(chosen, str):
            scores = tuple(-1.0 if text == f" {chosen}" else -2.0 for text in query.continuations)
            chosen = Scored(logprobs=scores, tokens=(1,) * len(scores))
        reply = outcome("x", said) if chosen is None else outcome(chosen, Verdict.UNSURE)
        outcomes[phase, "direct", query.id] = reply
    return CaseRecord(case=case, batch="0", outcomes=outcomes, edited=edited)


def values(one, phase="after"):
    return {value.aspect: value.value for value in Belief().values(one) if value.phase == phase}


def right(query):
    return query.gold.entities[0].label


class TestContract(MetricContract):
    name = "belief"

    @pytest.fixture
    def record(self):
        return record(right)


def test_choice_lists_both_objects_in_both_orders() -> None:
    found = queries()
    start = "Choose the right option. Use the information, if there is any, and what you know.\nInformation: "
    question = f"\nQuestion: {MOVE_TOWER.question}\n"
    name = f"choice/{MOVE_TOWER.id}"
    assert found[f"{name}/none/first"].texts[0] == (
        f"{start}none{question}A. Rome\nB. Paris\nC. I am not sure\nAnswer:"
    )
    assert found[f"{name}/none/second"].texts[0] == (
        f"{start}none{question}A. Paris\nB. Rome\nC. I am not sure\nAnswer:"
    )
    assert found[f"{name}/two-options/first"].texts[0] == f"{start}none{question}A. Rome\nB. Paris\nAnswer:"
    assert [found[f"{name}/none/{order}"].gold.entities[0].label for order in ("first", "second")] == ["A", "B"]
    for context, fact in {
        "supporting": "Eiffel Tower is located in Rome.",
        "contradicting": "Eiffel Tower is located in Paris.",
        "irrelevant": "Ada speaks English.",
    }.items():
        assert found[f"{name}/{context}/first"].texts[0].startswith(f"{start}{fact}{question}")


def test_reversal_asks_for_the_subject_among_two_of_the_relation() -> None:
    text = queries()[f"reversal/{MOVE_TOWER.id}/none/first"].texts[0]
    assert text.endswith(
        'Which name belongs in the blank of "____ is located in Rome."?\nA. Eiffel Tower\nB. Brandenburg Gate\nAnswer:'
    )


def test_reversal_has_one_right_subject_though_another_edit_changes_it() -> None:
    """Bo speaks Thai after another edit of him, so he is no wrong answer for Ada."""
    edits = (
        EDITS[2],
        language("Bo", "Greek", "Welsh"),
        language("Bo", "Greek", "Thai"),
        language("Cy", "Czech", "Irish"),
    )
    cases = [
        Case(id=str(n), edits=(evolve(edit, id=str(n)),), probes=(Probe(id="own", aspect="efficacy", queries=(OWN,)),))
        for n, edit in enumerate(edits)
    ]
    assert "A. Ada\nB. Cy\n" in queries(with_tests(cases[0], cases))["reversal/0/none/first"].texts[0]


def test_conflict_states_the_old_object_before_the_question() -> None:
    query = queries()[f"conflict/{MOVE_TOWER.id}"]
    assert query.texts == (f"Eiffel Tower is located in Paris. {MOVE_TOWER.question}",)
    assert (right(query), query.pre_edit.entities[0].label) == ("Rome", "Paris")
    cloze = queries(with_tests(CASES[2]))["conflict/Ada"]
    assert (cloze.texts, cloze.form) == (("Ada speaks English. Ada speaks",), "cloze")


def test_without_old_object_another_object_of_the_relation_takes_its_place() -> None:
    """Not that of the same subject, nor the new one in other letters, nor an object of another relation."""
    edits = [language(*names) for names in (("Ada", None, "Thai"), ("Cy", None, "THAI"), ("Di", None, "Irish"))]
    again = evolve(language("Ada", None, "Welsh"), id="again")
    cases = cases_of(edits[0], MOVE_TOWER, again, *edits[1:])
    found = queries(with_tests(cases[0], cases))
    assert found["choice/Ada/two-options/first"].texts[0].endswith("A. Thai\nB. Irish\nAnswer:")
    assert "Information: Ada speaks Irish.\n" in found["choice/Ada/contradicting/first"].texts[0]
    assert "Eiffel Tower is located in Paris." in found["choice/Ada/irrelevant/first"].texts[0]
    conflict = found["conflict/Ada"]
    assert (conflict.texts, conflict.pre_edit.entities[0].label) == (("Ada speaks Irish. Ada speaks",), "Irish")


def test_old_object_of_another_edit_is_preferred_to_its_new_one() -> None:
    cases = cases_of(language("Ada", None, "Thai"), language("Cy", "Czech", "Irish"))
    assert "B. Czech\n" in queries(with_tests(cases[0], cases))["choice/Ada/none/first"].texts[0]


def test_without_old_object_only_values_about_it_are_missing() -> None:
    cases = cases_of(language("Ada", None, "Thai"), language("Di", None, "Irish"))
    found = list(Belief().values(record(right, case=with_tests(cases[0], cases))))
    missing = {value.aspect: value.skipped_because for value in found if value.phase == "after" and value.value is None}
    old = "the dataset has no old object of the edit"
    assert missing == {
        "choice-old": old, "conflict-old": old, "choice-irrelevant": "the dataset has no other fact to test it with",
    }  # fmt: skip
    assert {value.value for value in found if value.aspect == "believed" and value.phase == "after"} == {1}


def test_without_old_object_and_another_edit_of_the_relation_there_are_no_tests() -> None:
    cases = cases_of(language("Ada", None, "Thai"), MOVE_TOWER)
    assert BeliefProbes(cases)(cases[0]) == ()
    found = list(Belief().values(record(right, case=cases[0])))
    assert {value.skipped_because for value in found} == {
        "no old object and no other edit of the relation (or a run without --metric belief)"
    }


def test_edit_with_a_question_instead_of_a_cloze_has_choice_and_conflict() -> None:
    edit = evolve(MOVE_TOWER, cloze=None)
    cases = cases_of(edit, MOVE_GATE)
    assert {probe.aspect for probe in BeliefProbes(cases)(cases[0])} == {"belief-choice", "belief-conflict"}
    (text,) = queries(with_tests(cases[0], cases))[f"conflict/{edit.id}"].texts
    assert text == f"{edit.question} Paris. {edit.question}"


def test_requests_name_no_new_object_of_another_case() -> None:
    for query in queries().values():
        assert "Madrid" not in query.texts[0]
        assert "Thai" not in query.texts[0]


def test_edit_without_another_of_its_relation_has_no_reversal() -> None:
    found = values(record(right, case=with_tests(CASES[2])))
    assert found["reversal"] is None
    assert found["believed"] is None
    assert found["choice"] == 1


def test_two_edits_of_a_case_are_tested_separately() -> None:
    case = Case(id="both", edits=EDITS[:2], probes=CASES[0].probes)
    probes = BeliefProbes([case])(case)
    assert len({probe.id for probe in probes}) == len(probes) == 6
    found = [value.unit for value in Belief().values(record(right, case=with_tests(case, [case])))]
    assert set(found) == {MOVE_TOWER.id, MOVE_GATE.id}


def test_edits_whose_ids_end_alike_are_not_mixed_up() -> None:
    """Ids may be statements: "DC comes from Oslo" and "AC/DC comes from Oslo"."""
    long = evolve(MOVE_GATE, id=f"AC/{MOVE_TOWER.id}")
    case = Case(id="both", edits=(MOVE_TOWER, long), probes=CASES[0].probes)
    tested = with_tests(case, [case])
    own = {query.id for probe in tested.probes if probe.edits == (MOVE_TOWER.id,) for query in probe.queries}
    made = record(lambda query: right(query) if query.id in own else "?", case=tested)
    found = {value.unit: value.value for value in Belief().values(made) if value.aspect == "choice"}
    assert found == {MOVE_TOWER.id: 1, long.id: 0.5}  # no letter is more probable


@pytest.mark.parametrize("edit", [TEXT_ONLY, FREE_FORM, language("Bo", "Thai", "Thai")], ids=lambda edit: edit.id)
def test_unsuitable_edit_has_no_tests_and_a_reason(edit) -> None:
    case = Case(id="c", edits=(edit,), probes=CASES[0].probes)
    assert BeliefProbes([case])(case) == ()
    found = list(Belief().values(record(right, case=case)))
    assert found
    assert {value.skipped_because for value in found} == {unsuitable(edit)}


def test_model_that_always_says_a_scores_half_and_flips() -> None:
    found = values(record(lambda _query: "A"))
    assert (found["choice"], found["choice-of-two"], found["reversal"]) == (0.5, 0.5, 0.5)
    assert (found["choice-flips"], found["choice-old"], found["believed"]) == (1, 0.5, 0)


def test_model_that_believes_the_edit() -> None:
    found = values(record(right))
    ones = {name for name, value in found.items() if value == 1}
    assert ones == {
        "choice", "choice-of-two", "choice-supporting", "choice-irrelevant", "choice-contradicting", "reversal",
        "conflict", "believed",
    }  # fmt: skip
    assert {found[name] for name in found if name not in ones} == {0}


def test_model_that_is_not_sure() -> None:
    found = values(record(lambda query: "C" if " C" in query.continuations else right(query)))
    assert (found["choice"], found["choice-unsure"], found["choice-flips"], found["choice-of-two"]) == (0, 1, 0, 1)


@pytest.mark.parametrize(("verdict", "new", "old"), [("RIGHT", 1, 0), ("PRE_EDIT", 0, 1), ("WRONG", 0, 0)])
@pytest.mark.parametrize("phase", ["after", "before"])
def test_conflict_is_won_by_the_new_or_the_old_object(verdict, new, old, phase) -> None:
    """The judge calls the old object right before editing."""
    found = values(record(right, Verdict[verdict], phase=phase), phase)
    made = phase == "after"
    assert (found["conflict"], found["conflict-old"]) == ((new, old) if made else (old, new))


def test_control_has_no_values() -> None:
    assert set(values(record(right, edited=False)).values()) == {None}


def test_failed_choice_chooses_nothing_and_missing_scores_have_a_reason() -> None:
    found = values(record(lambda _query: Failure(error="ServerDown", message="gone")))
    assert (found["choice"], found["choice-old"], found["choice-unsure"]) == (0, 0, 0)
    missing = list(Belief().values(record(lambda _query: Failure(error="NoLikelihood", message="text only"))))
    assert {value.skipped_because for value in missing if value.aspect == "choice" and value.phase == "after"} == {
        "text only"
    }


def test_run_without_the_tests_has_a_reason() -> None:
    found = list(Belief().values(record(right, case=CASES[0])))
    assert {value.skipped_because for value in found} == {"the run did not ask it: use ke eval with --metric belief"}
