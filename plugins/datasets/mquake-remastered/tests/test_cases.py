"""What a record becomes, what is hidden from it, and which part of the split it is in."""

from __future__ import annotations

import json

import pytest

from ke_core.app import count_cases, discover, read_catalog
from ke_core.plugin import Dataset
from ke_plugin_mquake_remastered.variants import VARIANTS
from ke_testing.dataset import DatasetContract

TRAIN_AND_TEST = ["train_edited", "test_edited"]


class TestMasked(DatasetContract):
    name = "mquake-remastered-cf3k"
    whole = False

    @pytest.fixture
    def dataset(self, stored, made, moved) -> Dataset:
        return stored([made(1, ["edited"]), moved(2, ["edited"]), made(3, ["unedited"])])


class TestEdits(DatasetContract):
    name = "mquake-remastered-cf3k"
    options = {"view": "edits"}  # noqa: RUF012  the contract declares it as a ClassVar

    @pytest.fixture
    def dataset(self, stored, made, moved) -> Dataset:
        return stored([made(1, ["edited"]), moved(2, ["edited"])], view="edits")


class TestFixed(DatasetContract):
    name = "mquake-remastered-cf6334"

    @pytest.fixture
    def dataset(self, stored, made) -> Dataset:
        return stored([made(1, TRAIN_AND_TEST, "CF6334"), made(2, ["test_unedited"], "CF6334")], variant="CF6334")


class TestNested(DatasetContract):
    name = "mquake-remastered-cf3k"
    whole = False

    @pytest.fixture
    def dataset(self, stored, made, moved, nested) -> Dataset:
        return stored([nested(made(1, [])), nested(moved(2, [])), nested(made(3, []))])


def test_the_layout_of_the_repository_gives_the_same_cases(stored, made, nested) -> None:
    two = [made(1, ["edited"]), made(2, ["unedited"])]
    flat = list(stored(two).cases())
    assert list(stored([nested(one) for one in two]).cases()) == flat


def test_a_file_without_a_split_edits_the_cases_that_its_authors_drew(stored, made, nested) -> None:
    """Acceptance check 1 of the protocol: the first ids of the published lists."""
    dataset = stored([nested(made(number, [])) for number in range(1, 3001)])
    for k, first in {1: {"597"}, 100: {"597", "1883", "1864", "716", "2890", "2999"}}.items():
        split = dataset.split(k, 0)
        edited = {case for case, side in split.items() if side == "edited"}
        assert (len(split), len(edited)) == (3000, k)
        assert first <= edited
    assert dataset.split(100, 7) == dataset.split(100, 0)
    assert set(dataset.split(3000, 0).values()) == {"edited"}


def test_a_shortened_file_without_a_split_has_no_published_split(stored, made, nested) -> None:
    assert stored([nested(made(1, [])), nested(made(2, []))]).split(1, 0) is None


def test_the_repositorys_file_of_cf_6334_has_its_split_under_another_name(stored, made, nested) -> None:
    labels = [TRAIN_AND_TEST, ["test_unedited"], []]
    records = [nested(made(n, []), {"100": of, "6334": []}) for n, of in enumerate(labels, start=1)]
    dataset = stored(records, variant="CF6334")
    assert dataset.split(100, 0) == {"1": "edited", "2": "unedited"}
    assert [case.tags.get("part-100") for case in dataset.cases()] == ["shared", "unedited", None]


def test_a_case_reads_like_one_of_mquake(record, stored) -> None:
    (case,) = stored([record]).cases()
    (edit,) = case.edits
    assert edit.id == "Q17|P27|Q3"
    assert edit.statement == "Person 7 is a citizen of Boland"
    assert edit.question == "What is the country of citizenship of Person 7?"
    assert (edit.before.objects[0].id, edit.after.objects[0].id) == ("Q2", "Q3")
    assert edit.after.objects[0].aliases == ("BO",)
    assert [fact.objects[0].id for fact in case.facts_after] == ["Q3", "Q5"]
    assert {probe.id for probe in case.probes} == {"efficacy-1", "instance-before", "instance-after", "multi-hop"}
    assert case.tags == {"hops": "2", "edits": "1"}


def test_the_old_object_of_an_edit_off_the_old_chain_is_known_by_label(stored, moved) -> None:
    (case,) = stored([moved(1, ["edited"])]).cases()
    old = case.edits[1].before.objects[0]
    assert (old.label, old.id) == ("Boville", None)


def test_one_record_a_line_is_as_good_as_a_list(stored, made) -> None:
    two = [made(1, ["edited"]), made(2, ["unedited"])]
    listed = list(stored(two).cases())
    assert list(stored("\n".join(map(json.dumps, two)).encode()).cases()) == listed


def test_masking_hides_another_cases_edit_of_the_own_path_and_no_other(stored, made, moved) -> None:
    dataset = stored([made(1, ["edited"]), moved(2, ["edited"])])
    own, other = dataset.cases()
    bank = {edit.id: edit for case in (own, other) for edit in case.edits}
    assert dataset.hides(own, bank, edited=True) == {"Q3|P36|Q6"}
    assert dataset.hides(own, bank, edited=False) == {"Q11|P27|Q3"}
    assert dataset.hides(other, bank, edited=True) == frozenset()


def test_masking_is_on_where_the_paper_masks_and_may_be_turned_off(stored, made, moved) -> None:
    catalog = read_catalog(discover())
    for variant in VARIANTS:
        spec = catalog.spec("dataset", variant.name)
        assert spec.hides(spec.config()) is (variant.name != "mquake-remastered-cf6334")
    dataset = stored([made(1, ["edited"]), moved(2, ["edited"])], mask="false")
    own, other = dataset.cases()
    assert not dataset.hides(own, {edit.id: edit for edit in other.edits}, edited=True)


def test_the_published_split_says_who_is_edited_whatever_the_seed(stored, made) -> None:
    dataset = stored([made(1, ["edited"]), made(2, ["unedited"])])
    for seed in (0, 100):
        assert dataset.split(100, seed) == {"1": "edited", "2": "unedited"}
    assert dataset.split(50, 0) is None
    assert stored([made(1, ["edited"])], view="edits").split(100, 0) is None


def test_in_cf_6334_all_edited_cases_are_edited_and_unlabeled_ones_left_out(stored, made) -> None:
    labels = [TRAIN_AND_TEST, ["train_edited"], ["test_edited", "test_edited_unique"], ["test_unedited"], [], None]
    dataset = stored([made(n, of, "CF6334") for n, of in enumerate(labels, start=1)], variant="CF6334")
    assert dataset.split(1000, 0) == {"1": "edited", "2": "edited", "3": "edited", "4": "unedited"}
    buckets = [case.tags.get("part-1000") for case in dataset.cases()]
    assert buckets == ["shared", "train only", "test only", "unedited", None, None]
    assert count_cases(dataset.cases())["part-100: shared"] == 1


def test_published_counts_are_those_of_the_corrected_sets(stored) -> None:
    cases = {variant.name.rpartition("-")[2]: variant.published.get("cases") for variant in VARIANTS}
    assert cases == {"cf3k": 3000, "cf9k": 9171, "t": 1864, "cf6334": None}


@pytest.mark.parametrize("name", ["cf3k", "t"])
def test_what_is_asked_of_a_model_is_what_mquake_asks(stored, name, made) -> None:
    variant = {"cf3k": "CF3k", "t": "T"}[name]
    dataset = stored([made(1, ["edited"], variant)], variant=variant)
    (case,) = dataset.cases()
    question = next(probe for probe in case.probes if probe.id == "multi-hop").queries[0]
    assert dataset.prompt(question, "cot").text.endswith(f"Question: {question.texts[0]}\nThoughts:")
    assert "decompositions" in dataset.material()
