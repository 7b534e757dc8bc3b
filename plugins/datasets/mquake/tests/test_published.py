"""Known properties of the published CF-3k file."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from ke_benchmarks import count_cases
from ke_core.plugin import EFFICACY, Case, Dataset, distinct, from_json, to_json
from ke_plugin_mquake.dataset import Mquake
from ke_plugin_mquake.variants import CF_3K_SHA256, VARIANTS
from ke_testing.dataset import DatasetContract


class TestCF3k(DatasetContract):
    name = "mquake-cf-3k"

    @pytest.fixture
    def dataset(self, cf_3k: Mquake) -> Dataset:
        return cf_3k


class TestConsistent(DatasetContract):
    name = "mquake-2002"

    @pytest.fixture
    def dataset(self, cf_2002: Mquake) -> Dataset:
        return cf_2002


class TestMasked(DatasetContract):
    name = "mquake-cf-3k"
    options = {"mask": "true"}  # noqa: RUF012  the contract declares it as a ClassVar

    @pytest.fixture
    def dataset(self, masked: Mquake) -> Dataset:
        return masked


class TestAtlas(DatasetContract):
    name = "mquake-atlas"

    @pytest.fixture
    def dataset(self, make: Callable[..., Mquake]) -> Dataset:
        return make("mquake-atlas")


def probe(case, aspect, phase="after"):
    return next(p for p in case.probes if p.aspect == aspect and p.asked(phase))


def edits_of(cases):
    return [edit for case in cases for edit in case.edits]


def names(gold):
    return {name for entity in gold.entities for name in entity.names}


def test_pinned_checksum_is_that_of_the_git_blob(raw) -> None:
    text = json.dumps(raw, indent=2).encode()
    blob = b"blob %d\0" % len(text) + text
    assert len(text) == 16_055_945
    assert hashlib.sha1(blob, usedforsecurity=False).hexdigest() == "b9d0963c6c1c81b24d8113ffdc3fd0865a423e18"
    assert hashlib.sha256(text).hexdigest() == CF_3K_SHA256


def test_published_versions_by_git_blob_id() -> None:
    known = {variant.name: set(variant.blobs) for variant in VARIANTS if variant.blobs}
    assert known == {"mquake-cf-3k-v2": {"6cf09043"}, "mquake-cf": {"86f8c0d3"}, "mquake-t": {"afd89d0c", "b0266d90"}}
    versions = next(variant.blobs for variant in VARIANTS if variant.name == "mquake-t")
    assert versions["afd89d0c"] == "princeton-nlp/MQuAKE"
    assert "DeepEdit and PokeMQA" in versions["b0266d90"]


def test_case_ids_and_hops_in_published_order(cases) -> None:
    assert [case.id for case in cases] == [str(n) for n in range(1, 3001)]
    assert [case.tags["hops"] for case in cases] == ["2"] * 1000 + ["3"] * 1000 + ["4"] * 1000
    assert all(len(probe(case, "multi-hop").queries) == 3 for case in cases)
    assert all(len({q.texts[0] for q in probe(case, "multi-hop").queries}) == 3 for case in cases)


def test_every_count_is_published_and_edit_ids_are_those_of_facts(cf_3k, cases) -> None:
    assert count_cases(cases) == cf_3k.info().published
    assert {(e.before.subject.id, e.before.relation.id, e.after.objects[0].id) for e in edits_of(cases)} == {
        tuple(edit.id.split("|")) for edit in edits_of(cases)
    }


def test_edit_id_identifies_statement_and_edit(cases) -> None:
    edits = edits_of(cases)
    assert len(distinct(edits)) == len({edit.statement for edit in edits}) == 2786
    assert len({(edit.id, edit.statement) for edit in edits}) == 2786
    first = {edit.id: edit for edit in distinct(edits)}
    assert all(first[edit.id] == edit for edit in edits)


def test_chains_connect_and_end_in_the_answer(cases) -> None:
    for case in cases:
        for facts, gold in (
            (case.facts_before, probe(case, "multi-hop").queries[0].pre_edit),
            (case.facts_after, probe(case, "multi-hop").queries[0].gold),
        ):
            for one, other in pairwise(facts):
                assert one.objects[0].id == other.subject.id
            assert (facts[-1].objects[0].label, facts[-1].objects[0].id) == (
                gold.entities[0].label,
                gold.entities[0].id,
            )
        assert [f.relation for f in case.facts_before] == [f.relation for f in case.facts_after]
        assert [e.after for e in case.edits] == [f for f in case.facts_after if f in {e.after for e in case.edits}]
        query = probe(case, "multi-hop").queries[0]
        assert query.gold.entities[0].label != query.pre_edit.entities[0].label


def test_numbers_of_edited_unchanged_and_moved_hops(cases) -> None:
    edited = unchanged = moved = 0
    for case in cases:
        own = {edit.after for edit in case.edits}
        for before, after in zip(case.facts_before, case.facts_after, strict=True):
            edited += after in own
            unchanged += after not in own and after == before
            moved += after not in own and after != before
    assert (edited, unchanged, moved) == (6015, 1196, 1789)


def test_wordings_name_the_head(cases) -> None:
    for case in cases:
        head = case.facts_before[0].subject.label
        assert all(head in query.texts[0] for query in probe(case, "multi-hop").queries)


def test_question_entities_are_heads_and_edited_subjects(cf_3k, cases) -> None:
    material = cf_3k.material()["question-entities"]
    assert material.oracle
    for case in cases:
        for query in probe(case, "multi-hop").queries:
            assert material.value[query.texts[0]] == f"{case.facts_before[0].subject.label}."
        assert all(material.value[edit.question] == f"{edit.after.subject.label}." for edit in case.edits)


def test_most_edited_relations(cases) -> None:
    found = Counter(edit.after.relation.id for edit in edits_of(cases))
    assert found.most_common(4) == [("P495", 938), ("P27", 698), ("P641", 627), ("P36", 461)]
    assert found["P1308"] == min(found.values()) == 6
    assert "P364" not in {fact.relation.id for case in cases for fact in (*case.facts_before, *case.facts_after)}


def test_first_case(cases) -> None:
    assert cases[0].edits[0].statement == "Ellie Kemper is a citizen of Croatia"
    query = probe(cases[0], "multi-hop").queries[0]
    assert query.pre_edit.entities[0].label == "Donald Trump"
    assert query.gold.entities[0].label == "Kolinda Grabar-Kitarović"


def test_new_objects_have_aliases(cases) -> None:
    assert "HRV" in cases[0].edits[0].after.objects[0].aliases
    assert all(probe.queries[0].gold.entities == edit.after.objects
               for case in cases for probe, edit in zip(case.probes, case.edits, strict=False))  # fmt: skip


def test_misspelled_templates_are_kept(cases) -> None:
    relations = {fact.relation.id: fact.relation for case in cases for fact in case.facts_after}
    assert relations["P69"].cloze == "The univeristy where {} was educated is"
    assert relations["P449"].cloze == "The origianl broadcaster of {} is"
    assert all(r.cloze and r.question for r in relations.values())


def test_templates_reproduce_prompts_and_questions_of_edits(cases) -> None:
    for edit in edits_of(cases):
        relation, subject = edit.after.relation, edit.after.subject.label
        assert edit.cloze.template == relation.cloze
        assert edit.question == relation.question.replace("{}", subject)


def test_questions_of_a_case_are_unique(cases) -> None:
    for case in cases:
        found: dict[str, str] = {}
        for item in case.probes:
            for query in item.queries:
                assert found.setdefault(query.texts[0], query.id) == query.id
        hops = {query.id: query for query in probe(case, "instance").queries}
        for edit, item in zip(case.edits, case.probes, strict=False):
            assert item.queries == (hops[item.queries[0].id],)
            assert item.queries[0].edit == edit.id


def test_parrot_of_the_last_edit_is_right_in_1872_cases(cases) -> None:
    right: Counter[str] = Counter()
    for case in cases:
        said = case.edits[-1].after.objects[0].label
        right[case.tags["hops"]] += any(said in names(q.gold) for q in probe(case, "multi-hop").queries)
    assert (right.total(), right["2"], right["3"], right["4"]) == (1872, 787, 568, 517)


def test_oracle_answers_are_right(cf_3k, cases) -> None:
    answers = cf_3k.material()["answers"]
    assert answers.oracle
    right: Counter[str] = Counter()
    for case in cases:
        for item in case.probes:
            if item.asked("after"):
                said = [answers.value[f"{case.id}/{query.id}"] for query in item.queries]
                hits = [text in names(query.gold) for text, query in zip(said, item.queries, strict=True)]
                right[item.aspect] += all(hits) if item.require == "all" else any(hits)
                assert not any(name == "" for query in item.queries for name in names(query.gold))
    assert right == {"efficacy": 6015, "instance": 3000, "multi-hop": 3000}


@pytest.mark.parametrize(("k", "mentions", "statements"), [
    (1, 1, 1), (100, 218, 180), (1000, 1986, 1147), (2000, 3992, 1987), (3000, 6015, 2786),
])  # fmt: skip
def test_numbers_of_statements_in_published_samples(cases, k, mentions, statements) -> None:
    random.seed(100)
    chosen = set(random.sample(range(1, 3001), k))
    edits = edits_of(case for case in cases if int(case.id) in chosen)
    assert (len(edits), len(distinct(edits))) == (mentions, statements)


def test_reading_is_fast_and_deterministic(cases, published, make) -> None:
    start = time.process_time()
    again = tuple(make("mquake-cf-3k", data_dir=str(published.parent)).cases())
    assert time.process_time() - start < 6  # a fresh process on an idle machine needs under 2
    assert again == cases


@pytest.mark.integration
def test_cases_can_be_stored_as_json(cases) -> None:
    for case in cases:
        assert from_json(json.loads(json.dumps(to_json(case))), Case, of=case.id) == case


def test_counts_of_mquake_2002(cf_2002) -> None:
    hops = Counter(case.tags["hops"] for case in cf_2002.cases())
    edits = Counter(case.tags["edits"] for case in cf_2002.cases())
    assert hops == {"2": 966, "3": 625, "4": 411}
    assert edits == {"1": 557, "2": 751, "3": 426, "4": 268}


@pytest.mark.parametrize("variant", [v for v in VARIANTS if not v.sha256], ids=lambda v: v.name)
def test_published_counts_of_other_files(variant, published, make) -> None:
    if not (published.parent / variant.file).is_file():
        pytest.skip(f"no {variant.file} next to {published.name}")
    dataset = make(variant.name, data_dir=str(published.parent))
    found = count_cases(dataset.cases())
    assert {name: found[name] for name in variant.published} == variant.published


def test_view_edits_of_cf_3k(published, make) -> None:
    dataset = make("mquake-cf-3k", data_dir=str(published.parent), view="edits")
    found = list(dataset.cases())
    assert {name: count_cases(found)[name] for name in dataset.info().published} == dataset.info().published
    for case in found[:200]:
        (query,) = (query for probe in case.probes if probe.aspect == EFFICACY for query in probe.queries)
        assert case.id == query.edit == case.edits[0].id
        assert dataset.prompt(query, "direct")
        assert dataset.material()["answers"].value[f"{case.id}/{query.id}"] == case.edits[0].after.objects[0].label


def test_published_counts_add_up() -> None:
    published = {variant.name: variant.published for variant in VARIANTS}
    assert published["mquake-t"]["cases"] == 1868
    assert published["mquake-cf"]["cases"] == 9218
    for name, counts in published.items():
        cells = [n for cell, n in counts.items() if "hop" in cell]
        assert not cells or sum(cells) == counts["cases"], name
