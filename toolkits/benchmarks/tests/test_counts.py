"""Counting a benchmark."""

from __future__ import annotations

from attrs import evolve

from ke_benchmarks import count_cases
from ke_core.plugin import Case, Edit, Gold, Probe, Query
from ke_testing.toy import Toy

PROBE = Probe(id="p", aspect="a", queries=(Query(id="q", texts=("?",), gold=Gold()),))


def case(name: str, *statements: str, **tags: str) -> Case:
    edits = tuple(Edit(id=text, statement=text, question=f"{text[0]}?") for text in statements)
    return Case(id=name, edits=edits, probes=(PROBE,), tags=tags)


def test_statements_and_questions_count_once_and_mentions_each_time() -> None:
    found = count_cases([case("1", "a is x"), case("2", "a is x", "b is y"), case("3", "a is z")])
    assert found == {"cases": 3, "edit mentions": 4, "distinct statements": 3, "distinct edited questions": 2}


def test_tags_of_counts_are_combined_and_readable() -> None:
    found = count_cases(Toy().cases())
    assert found["2 hops, 1 edit"] == found["cases"] == 2


def test_cells_are_ordered_by_their_numbers() -> None:
    cases = [case(str(n), hops=hops, edits="2") for n, hops in enumerate(("10", "2", "2"))]
    assert [name for name in count_cases(cases) if "hop" in name] == ["2 hops, 2 edits", "10 hops, 2 edits"]


def test_a_tag_that_is_no_number_stands_alone() -> None:
    found = count_cases([case("1", part="train", hops="1"), case("2", part="test", hops="1"), case("3", part="test")])
    assert (found["part: test"], found["part: train"], found["1 hop"]) == (2, 1, 2)


def test_cases_that_cannot_be_edited_are_counted_by_reason() -> None:
    bad = [evolve(case(name, n="1"), edits=(), not_editable=why) for name, why in (("2", "b"), ("3", "a"), ("4", "b"))]
    found = count_cases([case("1", "a is x"), *bad])
    assert list(found.items())[:4] == [
        ("cases", 4), ("cannot be edited", 3), ("cannot be edited: a", 1), ("cannot be edited: b", 2),
    ]  # fmt: skip


def test_edits_without_a_question_are_not_counted_as_questions() -> None:
    bare = evolve(case("1", "a is x"), edits=(Edit(id="e", statement="a is x"),))
    assert "distinct edited questions" not in count_cases([bare])


def test_no_case_is_no_error() -> None:
    assert count_cases([]) == {"cases": 0, "edit mentions": 0, "distinct statements": 0}
