"""Set operations, question structures, and the conflict filter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ke_core.plugin import Edit, Entity, Fact, Relation
from ke_plugin_compke.algebra import SetStep, evaluate, places
from ke_plugin_compke.builder import keep_consistent
from ke_plugin_compke.forms import FORMS
from ke_plugin_compke.relations import wikidata

FACTS = {("a", "r"): ("x", "y"), ("b", "r"): ("y", "z"), ("x", "s"): ("1", "2"), ("y", "s"): ("2",), ("e", "r"): ()}
FILL = {"a": "A", "b": "B", "r1": "p", "r2": "q", "r3": "r", "v": "V"}


def world(subject: str, relation: str) -> tuple[str, ...]:
    return FACTS.get((subject, relation), ())


def run(*steps: SetStep) -> tuple[tuple[str, ...], ...]:
    return evaluate(steps, world)


def of(subject: str, relation: str = "r") -> SetStep:
    return SetStep(op="map", inputs=(subject,), relation=relation)


def test_intersection_with_an_empty_set_is_empty() -> None:
    assert run(of("a"), of("e"), SetStep(op="intersect", inputs=(1, 2)))[-1] == ()


def test_union_is_idempotent() -> None:
    assert run(of("a"), of("a"), SetStep(op="union", inputs=(1, 2)))[-1] == ("x", "y")


def test_map_has_no_duplicates() -> None:
    assert run(of("a"), SetStep(op="map", inputs=(1,), relation="s"))[-1] == ("1", "2")


def test_member_without_value_contributes_nothing() -> None:
    assert run(of("b"), SetStep(op="map", inputs=(1,), relation="s"))[-1] == ("2",)


@given(st.frozensets(st.sampled_from("uvwxyz")), st.frozensets(st.sampled_from("uvwxyz")))
def test_filter_not_is_the_complement_of_filter(members: frozenset[str], having: frozenset[str]) -> None:
    truth = lambda subject, relation: (
        tuple(sorted(members)) if relation == "r" else ("v",) if subject in having else ("w",)
    )
    kept = SetStep(op="filter", inputs=(1,), relation="s", value="v")
    left = SetStep(op="filter_not", inputs=(1,), relation="s", value="v")
    whole, some, rest = evaluate((of("a"), kept, left), truth)
    assert set(some) | set(rest) == set(whole)
    assert not set(some) & set(rest)


def test_filter_tests_membership() -> None:
    kept = SetStep(op="filter", inputs=(1,), relation="s", value="2")
    assert run(of("a"), kept)[-1] == ("x", "y")


def test_places_are_the_facts_used() -> None:
    steps = (of("a"), SetStep(op="map", inputs=(1,), relation="s"))
    assert places(steps, evaluate(steps, world)) == (("a", "r"), ("x", "s"), ("y", "s"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"op": "map", "inputs": ("a",)},
        {"op": "map", "inputs": ("a", "b"), "relation": "r"},
        {"op": "union", "inputs": (1,)},
        {"op": "union", "inputs": (1, 2), "relation": "r"},
        {"op": "filter", "inputs": (1,), "relation": "r"},
        {"op": "map", "inputs": (1,), "relation": "r", "value": "v"},
        {"op": "xor", "inputs": (1, 2)},
    ],
)
def test_invalid_step_is_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"needs|must be in"):
        SetStep(**wrong)  # type: ignore[arg-type]


def test_cyclic_steps_are_rejected() -> None:
    with pytest.raises(ValueError, match="step 1 uses the result of step 1"):
        run(SetStep(op="map", inputs=(1,), relation="r"))


def test_numbers_of_steps_match_the_figure() -> None:
    steps = {form.name: len(form.steps) for form in FORMS}
    assert [steps[str(number)] for number in range(1, 8)] == [3, 3, 3, 3, 4, 4, 5]
    assert (steps["one-step"], steps["two-step"]) == (1, 2)
    by_steps = {n: sum(form.share for form in FORMS if len(form.steps) == n) for n in range(1, 6)}
    assert by_steps == {1: 200, 2: 424, 3: 5770, 4: 2949, 5: 2581}


def test_structure_is_filled() -> None:
    seven = FORMS[-1].filled(FILL)
    assert seven[0] == SetStep(op="map", inputs=("A",), relation="p")
    assert seven[-1] == SetStep(op="filter", inputs=(3,), relation="r", value="V")


def test_forty_relations_have_templates() -> None:
    table = wikidata()
    assert len(table) == 40
    for template in table.values():
        for name in ("question", "cloze", "many", "one", "has", "lacks"):
            assert getattr(template, name).count("{}") == 1
    for alike in (("P1037", "P57"), ("P27", "P17")):
        assert len({table[name].question for name in alike}) == 2


def test_edit_partitions_old_and_new_objects() -> None:
    def fact(names: str) -> Fact:
        return Fact(
            subject=Entity(label="Acme"),
            relation=Relation(label="manager"),
            objects=tuple(Entity(label=name) for name in names.split()),
        )

    edit = Edit(id="e", statement="s", before=fact("John Smith Dave"), after=fact("Smith Eden Keyes"))
    parts = [{entity.label for entity in part} for part in (edit.added, edit.removed, edit.retained)]
    assert list(map(len, parts)) == [2, 2, 1]
    assert set.union(*parts) == {"John", "Smith", "Dave", "Eden", "Keyes"}


def test_one_case_of_each_conflict_group_is_kept() -> None:
    x, y, z = frozenset({"p", "q"}), frozenset({"p"}), frozenset({"z"})
    cases = {1: {("a", "r"): x}, 2: {("a", "r"): y}, 3: {("b", "r"): z}, 4: {("a", "r"): frozenset({"q", "p"})}}
    for seed in range(5):
        kept = keep_consistent(cases, seed=seed)
        assert len(kept) == 2
        assert 3 in kept


def test_equal_edits_do_not_conflict() -> None:
    same = frozenset({"p"})
    assert keep_consistent({1: {("a", "r"): same}, 2: {("a", "r"): same}}, seed=0) == (1, 2)


def test_conflict_groups_are_connected_components() -> None:
    p, q = frozenset({"p"}), frozenset({"q"})
    cases = {1: {("a", "r"): p}, 2: {("a", "r"): q, ("b", "r"): p}, 3: {("b", "r"): q}}
    assert len(keep_consistent(cases, seed=1)) == 1
