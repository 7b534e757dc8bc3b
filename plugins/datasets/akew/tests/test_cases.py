"""Cases of made-up records in the published layouts, and of the embedded ones."""

from __future__ import annotations

import copy
from typing import ClassVar

import pytest

from ke_core.app import in_form
from ke_core.plugin import Dataset, KEWarning
from ke_testing.dataset import DatasetContract, read_error, stored_fixture, with_field

TEXT = "Ostrel Mills, on the river Lume, was set up by Tobin Crane."
REWRITE = {
    "prompt": "{} was set up by",
    "relation_id": "P112",
    "target_new": {"str": "Tobin Crane", "id": "Q2"},
    "target_true": {"str": "J. K. Lisk", "id": "Q3"},
    "subject": "Ostrel Mills",
    "prompt_full": "Ostrel Mills was set up by",
    "question": "Who set up Ostrel Mills?",
    "answer_new_alias": ["T. Crane"],
    "answer_true_aliases": ["Lisk"],
    "fact_new": "Ostrel Mills was set up by Tobin Crane.",
    "fact_new_uns": TEXT,
    "unsfact_triplets_GPT": [
        {"subject": "Ostrel Mills", "prompt": "{} is on", "target": "the river Lume"},
        {"subject": "Ostrel Mills", "prompt": "{} was set up by", "target": "Tobin Crane"},
        {"subject": "Ostrel Mills", "prompt": "is", "target": "a mill"},
    ],
}
SINGLE = {"case_id": 1, "requested_rewrite": REWRITE}
SECOND = REWRITE | {"subject": "Tobin Crane", "question": "Where was Tobin Crane born?", "unsfact_triplets_GPT": []}
MULTI = {
    "case_id": 2,
    "requested_rewrite": [REWRITE, SECOND],
    "questions": ["Where was the founder of Ostrel Mills born?", "The founder of Ostrel Mills is from where?"],
    "answer": "Vell",
    "answer_alias": ["Vell Town"],
    "new_answer": "Orm",
    "new_answer_alias": [],
}

stored = stored_fixture("akew-mquake-cf", "MQuAKE-CF.json")


@pytest.mark.filterwarnings("ignore:MQuAKE-CF.json. skipped triplets")
class TestFile(DatasetContract):
    name = "akew-mquake-cf"
    whole = False

    @pytest.fixture
    def dataset(self, stored) -> Dataset:
        return stored(copy.deepcopy([SINGLE, MULTI]))


class TestAtlas(DatasetContract):
    name = "akew-atlas"


class TestAtlasTriplets(DatasetContract):
    name = "akew-atlas"
    options: ClassVar = {"edit": "triplets"}


@pytest.mark.filterwarnings("ignore:MQuAKE-CF.json. skipped triplets")
class TestForms:
    """The same record with its edit in three forms."""

    @pytest.mark.parametrize(
        ("form", "targets"),
        [("text", [TEXT]), ("fact", ["Tobin Crane"]), ("triplets", ["the river Lume", "Tobin Crane"])],
    )
    def test_edits(self, stored, form, targets) -> None:
        [case] = stored([SINGLE], edit=form).cases()
        assert [edit.target for edit in case.edits] == targets
        assert all(edit.names_subject == (form != "text") for edit in case.edits)

    @pytest.mark.parametrize("form", ["text", "fact", "triplets"])
    def test_questions_are_the_same(self, stored, form) -> None:
        [case] = stored([SINGLE], edit=form).cases()
        asked = {probe.aspect: [query.texts[0] for query in probe.queries] for probe in case.probes}
        assert asked.pop("whole-text", []) == (["Who set up Ostrel Mills?"] if form == "text" else [])
        assert asked == {
            "efficacy": ["Who set up Ostrel Mills?"],
            "paraphrase": ["Ostrel Mills was set up by"],
            "sub-question": ["Ostrel Mills is on", "Ostrel Mills was set up by"],
        }

    @pytest.mark.parametrize("form", ["text", "fact", "triplets"])
    def test_edited_question_is_no_cloze_for_editors_of_clozes(self, stored, form) -> None:
        [case] = stored([SINGLE], edit=form).cases()
        own = case.probes[0].queries[0]
        assert in_form(own, "after", "cloze", edited=True).texts == ("Who set up Ostrel Mills?",)

    def test_edited_question_names_its_edit_unless_triplets_make_it(self, stored) -> None:
        side_fact = REWRITE | {"unsfact_triplets_GPT": REWRITE["unsfact_triplets_GPT"][:1]}
        for form, named in (("text", True), ("fact", True), ("triplets", False)):
            [case] = stored([SINGLE | {"requested_rewrite": side_fact}], edit=form).cases()
            assert case.probes[0].queries[0].edit == (case.edits[0].id if named else None)

    def test_both_spellings_of_aliases_are_read(self, stored) -> None:
        query = next(stored([SINGLE]).cases()).probes[0].queries[0]
        assert query.gold.entities[0].names == ("Tobin Crane", "T. Crane")
        assert query.pre_edit.entities[0].names == ("J. K. Lisk", "Lisk")

    def test_several_edits_and_a_multi_hop_question(self, stored) -> None:
        [case] = stored([MULTI], edit="fact").cases()
        assert len(case.edits) == 2
        multi_hop = case.probes[-1]
        assert (multi_hop.aspect, multi_hop.require, multi_hop.edits) == (
            "portability", "any", tuple(edit.id for edit in case.edits),
        )  # fmt: skip
        assert [query.gold.entities[0].label for query in multi_hop.queries] == ["Orm", "Orm"]

    def test_a_rewrite_without_triplets_cannot_be_edited_with_triplets(self, stored) -> None:
        [case] = stored([MULTI], edit="triplets").cases()
        assert (case.edits, case.not_editable) == ((), "no usable triplet was extracted from the text")

    def test_answers_to_questions_have_the_same_room_whatever_is_right(self, stored) -> None:
        dataset = stored([SINGLE], max_tokens="77")
        queries = {probe.aspect: probe.queries[0] for probe in next(dataset.cases()).probes}
        prompts = {aspect: dataset.prompt(query, "direct") for aspect, query in queries.items()}
        assert prompts["efficacy"] == prompts["whole-text"]
        assert (prompts["efficacy"].decoding.max_tokens, prompts["paraphrase"].decoding.max_tokens) == (77, 24)


def test_skipped_triplets_are_counted(stored) -> None:
    with pytest.warns(KEWarning, match=r"MQuAKE-CF\.json: skipped triplets .*: 1"):
        list(stored([SINGLE]).cases())


@pytest.mark.parametrize("name", ["subject", "prompt", "target"])
@pytest.mark.parametrize("part", [None, ["a mill"], 1820, {"name": "a mill"}])
def test_triplets_with_a_part_that_is_no_text_are_skipped(stored, name, part) -> None:
    """A model extracted them."""
    whole = REWRITE["unsfact_triplets_GPT"][0]
    record = SINGLE | {"requested_rewrite": REWRITE | {"unsfact_triplets_GPT": [whole | {name: part}, whole]}}
    with pytest.warns(KEWarning, match=r"MQuAKE-CF\.json: skipped triplets .*: 1"):
        [case] = stored([record], edit="triplets").cases()
    assert [edit.target for edit in case.edits] == ["the river Lume"]


@pytest.mark.parametrize("path", ["subject", "question", "fact_new_uns", "target_new", "target_true.str", "prompt"])
def test_missing_field_is_named(stored, path) -> None:
    message = read_error(stored([SINGLE | {"requested_rewrite": with_field(REWRITE, path)}]).cases)
    assert message.endswith(": missing")
    assert path.split(".")[-1] in message


def test_record_without_rewrites_is_an_error(stored) -> None:
    assert "requested_rewrite is empty" in read_error(stored([SINGLE | {"requested_rewrite": []}]).cases)


def test_a_new_object_that_is_an_alias_of_the_old_one_has_no_old_object(stored) -> None:
    record = {"case_id": 1, "requested_rewrite": REWRITE | {"target_true": {"str": "t. crane"}}}
    with pytest.warns(KEWarning, match="skipped"):
        assert all(query.pre_edit is None for case in stored([record]).cases() for query in case.probes[0].queries)


def test_aliases_that_only_the_hops_contain_are_right(stored) -> None:
    bare = {name: value for name, value in REWRITE.items() if "alias" not in name}
    hop = {"question": REWRITE["question"], "cloze": "Ostrel Mills was set up by", "answer": "Tobin Crane"}
    other = {"question": "Where was Tobin Crane born?", "answer": "Orm", "answer_alias": ["Orm Town"]}
    record = MULTI | {
        "requested_rewrite": [bare],
        "single_hops": [hop | {"answer": "J. K. Lisk", "answer_alias": ["Jo Lisk"]}],
        "new_single_hops": [hop | {"answer_alias": ["Toby Crane"]}, other],
    }
    with pytest.warns(KEWarning, match="skipped"):
        (case,) = stored([record]).cases()
    query = case.probes[0].queries[0]
    assert query.gold.entities[0].names == ("Tobin Crane", "Toby Crane")
    assert query.pre_edit is not None
    assert query.pre_edit.entities[0].names == ("J. K. Lisk", "Jo Lisk")
