"""Cases of records, masking, and the published split."""

from __future__ import annotations

import json

import pytest

from ke_benchmarks import count_cases
from ke_core.app import installed_catalog
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


def test_both_layouts_give_the_same_cases(stored, made, nested) -> None:
    two = [made(1, ["edited"]), made(2, ["unedited"])]
    flat = list(stored(two).cases())
    assert list(stored([nested(one) for one in two]).cases()) == flat


def test_split_of_a_file_without_split_is_the_published_one(stored, made, nested) -> None:
    """The first ids of the published lists."""
    dataset = stored([nested(made(number, [])) for number in range(1, 3001)])
    for k, first in {1: {"597"}, 100: {"597", "1883", "1864", "716", "2890", "2999"}}.items():
        split = dataset.split(k, 0)
        edited = {case for case, side in split.items() if side == "edited"}
        assert (len(split), len(edited)) == (3000, k)
        assert first <= edited
    assert dataset.split(100, 7) == dataset.split(100, 0)
    assert set(dataset.split(3000, 0).values()) == {"edited"}


def test_shortened_file_has_no_published_split(stored, made, nested) -> None:
    assert stored([nested(made(1, [])), nested(made(2, []))]).split(1, 0) is None


def test_split_of_cf_6334_in_the_nested_layout(stored, made, nested) -> None:
    labels = [TRAIN_AND_TEST, ["test_unedited"], []]
    records = [nested(made(n, []), {"100": of, "6334": []}) for n, of in enumerate(labels, start=1)]
    dataset = stored(records, variant="CF6334")
    assert dataset.split(100, 0) == {"1": "edited", "2": "unedited"}
    assert [case.tags.get("part-100") for case in dataset.cases()] == ["shared", "unedited", None]


def test_case_is_like_one_of_mquake(record, stored) -> None:
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


def test_old_object_outside_the_old_chain_has_no_id(stored, moved) -> None:
    (case,) = stored([moved(1, ["edited"])]).cases()
    old = case.edits[1].before.objects[0]
    assert (old.label, old.id) == ("Boville", None)


def test_one_record_per_line(stored, made) -> None:
    two = [made(1, ["edited"]), made(2, ["unedited"])]
    listed = list(stored(two).cases())
    assert list(stored("\n".join(map(json.dumps, two)).encode()).cases()) == listed


def test_mask_hides_contradicting_edits(stored, made, moved) -> None:
    dataset = stored([made(1, ["edited"]), moved(2, ["edited"])])
    own, other = dataset.cases()
    bank = {edit.id: edit for case in (own, other) for edit in case.edits}
    assert dataset.hides(own, bank, edited=True) == {"Q3|P36|Q6"}
    assert dataset.hides(own, bank, edited=False) == {"Q11|P27|Q3"}
    assert dataset.hides(other, bank, edited=True) == frozenset()


def test_default_of_mask(stored, made, moved) -> None:
    catalog = installed_catalog()
    for variant in VARIANTS:
        spec = catalog.spec("dataset", variant.name)
        assert spec.hides(spec.config()) is (variant.name != "mquake-remastered-cf6334")
    dataset = stored([made(1, ["edited"]), moved(2, ["edited"])], mask="false")
    own, other = dataset.cases()
    assert not dataset.hides(own, {edit.id: edit for edit in other.edits}, edited=True)


def test_published_split_ignores_the_seed(stored, made) -> None:
    dataset = stored([made(1, ["edited"]), made(2, ["unedited"])])
    for seed in (0, 100):
        assert dataset.split(100, seed) == {"1": "edited", "2": "unedited"}
    assert dataset.split(50, 0) is None
    assert stored([made(1, ["edited"])], view="edits").split(100, 0) is None


def test_split_of_cf_6334(stored, made) -> None:
    labels = [TRAIN_AND_TEST, ["train_edited"], ["test_edited", "test_edited_unique"], ["test_unedited"], [], None]
    dataset = stored([made(n, of, "CF6334") for n, of in enumerate(labels, start=1)], variant="CF6334")
    assert dataset.split(1000, 0) == {"1": "edited", "2": "edited", "3": "edited", "4": "unedited"}
    buckets = [case.tags.get("part-1000") for case in dataset.cases()]
    assert buckets == ["shared", "train only", "test only", "unedited", None, None]
    assert count_cases(dataset.cases())["part-100: shared"] == 1


def test_published_counts(stored) -> None:
    cases = {variant.name.rpartition("-")[2]: variant.published.get("cases") for variant in VARIANTS}
    assert cases == {"cf3k": 3000, "cf9k": 9171, "t": 1864, "cf6334": None}


@pytest.mark.parametrize("name", ["cf3k", "t"])
def test_prompts_are_those_of_mquake(stored, name, made) -> None:
    variant = {"cf3k": "CF3k", "t": "T"}[name]
    dataset = stored([made(1, ["edited"], variant)], variant=variant)
    (case,) = dataset.cases()
    question = next(probe for probe in case.probes if probe.id == "multi-hop").queries[0]
    assert dataset.prompt(question, "cot").text.endswith(f"Question: {question.texts[0]}\nThoughts:")
    assert "decompositions" in dataset.material()
