"""Parts that several benchmarks of questions share: decoys, gold of groups, edits, prompts, layouts of files."""

from __future__ import annotations

import itertools
import json

import pytest
from attrs import frozen

from ke_benchmarks import (
    cloze_edit,
    long_answer_prompt,
    one_of,
    question_edit,
    read_records,
    scored_query,
    short_answer_prompt,
    text_edit,
    with_decoys,
)
from ke_benchmarks.graph import (
    PROFILE,
    REPHRASED,
    load_atlas,
    other_object,
    profile,
    profile_text,
    profiled_countries,
    rephrased,
    unrelated_questions,
)
from ke_core.plugin import BadData, Entity, Gold, Query


def plain_decoy(targets: list[str], place: int) -> str:
    """Return the next other target, or the first one after the end."""
    others = targets[place + 1 :] + targets[:place]
    return next((other for other in others if other.casefold() != targets[place].casefold()), "unknown")


def test_decoy_is_the_next_other_target() -> None:
    for length in range(6):
        for targets in itertools.product(["a", "B", "b"], repeat=length):
            found = [decoy for _record, decoy in with_decoys(targets, str)]
            assert found == [plain_decoy(list(targets), place) for place in range(length)]


def test_decoys_are_found_with_one_record_of_lookahead() -> None:
    endless = with_decoys(itertools.cycle(["a", "b"]), str)
    assert [next(endless), next(endless)] == [("a", "b"), ("b", "a")]


def test_groups_of_names_become_objects_of_which_any_is_right() -> None:
    gold = one_of([[" Orm ", "Orm Town", "Orm"], [" "], ["Vell"], ["Orm"]])
    assert gold is not None
    assert gold.require == "any"
    assert [entity.names for entity in gold.entities] == [("Orm", "Orm Town"), ("Vell",)]
    assert one_of([[], [""]]) is None


def test_scored_query_has_the_target_and_no_pre_edit_answer() -> None:
    gold, old = (Gold(entities=(Entity(label=label),)) for label in ("Rome", "Oslo"))
    query = scored_query(Query(id="q", texts=("Where?",), gold=gold, pre_edit=old, edit="e"), "Bern")
    assert (query.id, query.continuations, query.pre_edit, query.edit) == (
        "q-teacher-forced", (" Rome", " Bern"), None, None,
    )  # fmt: skip


def test_edits_of_a_question_a_cloze_and_a_text() -> None:
    new, old = Entity(label="Rome"), Entity(label="Oslo")
    asked = question_edit("Where is the Tower?", "the Tower", new, old)
    told = cloze_edit("The Tower is in", "The Tower", new, old, question="Where is the Tower?")
    text = text_edit("Tell me about the Tower.", "It is in Rome.", old="It is in Oslo.")
    assert (asked.prompt, asked.target, asked.old_target) == ("Where is the Tower?", "Rome", "Oslo")
    assert (told.prompt, told.statement, told.question) == ("The Tower is in", "The Tower is in Rome", asked.question)
    assert (text.target, text.old_target, text.names_subject) == ("It is in Rome.", "It is in Oslo.", False)
    assert cloze_edit("It is in", "The Tower", new).cloze is None


def test_subject_is_found_as_a_word_first() -> None:
    new = Entity(label="Rome")
    said = question_edit("Why is a tandoori dish cooked in a tandoor?", "tandoor", new)
    joined = question_edit("Where is Thomas Hardynovel set?", "Thomas Hardy", new)
    assert [one.cloze and one.cloze.template for one in (said, joined)] == [
        "Why is a tandoori dish cooked in a {}?",
        "Where is {}novel set?",
    ]


def test_prompts_of_long_and_short_answers() -> None:
    bare = long_answer_prompt("Why?", "direct", max_tokens=9, end="text")
    framed = long_answer_prompt("Why?", "qa", max_tokens=9, end="text")
    line = long_answer_prompt("Why?", "qa", max_tokens=9, end="line")
    assert bare is not None
    assert framed is not None
    assert line is not None
    assert (bare.text, bare.decoding.stop, bare.parse("\na\n\nb ")[0]) == ("Why?", (), "a\n\nb")
    assert (framed.text, framed.decoding.stop, framed.parse(" a\nb\nQ: c")[0]) == ("Q: Why?\nA:", ("\nQ:",), "a\nb")
    assert (line.decoding.stop, line.parse(" a\nb")[0]) == (("\n",), "a")
    cloze = Query(id="q", texts=("It is in",), form="cloze", gold=Gold(entities=(Entity(label="Rome"),)))
    short = short_answer_prompt(cloze, "qa")
    assert short is not None
    assert short.text == "It is in"
    assert long_answer_prompt("Why?", "other", max_tokens=9, end="text") is short_answer_prompt(cloze, "other") is None


@frozen(kw_only=True)
class Row:
    id: str
    label: str


def test_records_of_an_object_are_unpacked_and_prepared(tmp_path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"a": {"name": "A"}, "b": {}}))

    def unpack(content):
        return [{"id": name, **row} for name, row in content.items()]

    def prepare(row):
        if "name" not in row:
            raise ValueError("name: missing")
        return {"id": row["id"], "label": row["name"]}

    rows = read_records(path, Row, key="id", unpack=unpack, prepare=prepare)
    assert next(rows) == Row(id="a", label="A")
    with pytest.raises(BadData, match=r"rows\.json, case b: name: missing"):
        next(rows)


def test_miniatures_are_the_same_in_every_process_and_change_what_they_should() -> None:
    graph = load_atlas()
    countries = profiled_countries(graph, 3, "test")
    assert countries == profiled_countries(graph, 3, "test") != profiled_countries(graph, 3, "other")
    for country in countries:
        new = other_object(graph, "capital", country, "test")
        described = profile(graph, country, {"capital": new})
        text = profile_text(graph, country, described)
        assert tuple(described) == PROFILE
        assert new != graph.object(country, "capital")
        assert all(entity.label in text for entity in described.values())
        edited: dict[str, list[str]] = {relation: [] for relation in REPHRASED}
        near = unrelated_questions(graph, "capital", country, edited, "test")
        assert len(near) == 6
        assert not any(graph.entity(country).label in question for question, _answer in near)
        edited["currency"] = [
            one.key for one in graph.subjects("currency") if graph.question(one.key, "currency") in dict(near)
        ]
        others = unrelated_questions(graph, "capital", country, edited, "test")
        assert not {*near[:2]} & {*others[:2]}
        assert near[2:] == others[2:]


def test_second_wording_has_the_article_of_the_subject() -> None:
    graph = load_atlas()
    assert rephrased(graph, "capital", "country:PH") == "Which city serves as the capital of the Philippines?"
    assert rephrased(graph, "continent", "country:PH") == "The Philippines lies on which continent?"
