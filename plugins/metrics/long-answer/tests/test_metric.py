"""Similarities against plain references, and the values of a record."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from attrs import evolve

from ke_core.plugin import Case, CaseRecord, Edit, Entity, Failure, Gold, Probe, Query, Verdict
from ke_plugin_long_answer import ke_metrics
from ke_plugin_long_answer.metric import LongAnswer, references
from ke_plugin_long_answer.similarity import bertscore, common_subsequence, rouge_l, rouge_n
from ke_testing.metric import MetricContract
from ke_testing.records import gold, outcome

PARAGRAPH = "Estonia is governed from Naypyidaw. People pay with the yen."
OWN = Query(id="edit", texts=("Tell me about Estonia",), gold=gold(PARAGRAPH), edit="e")
DETAILS = (
    Query(id="sub-1", texts=("Which capital?",), gold=gold("Naypyidaw.")),
    Query(id="sub-2", texts=("Which currency?",), gold=gold("The yen.")),
)


def record(*answers: str) -> CaseRecord:
    probes = (
        Probe(id="efficacy", aspect="efficacy", queries=(OWN,), phase="both", edits=("e",)),
        Probe(id="sub-question", aspect="sub-question", queries=DETAILS, require="all", phase="both", edits=("e",)),
        Probe(id="other", aspect="portability", queries=DETAILS[:1], edits=("e",)),
    )
    case = Case(id="1", edits=(Edit(id="e", statement="s"),), probes=probes)
    texts = dict(zip(("edit", "sub-1", "sub-2"), answers or (PARAGRAPH, "Naypyidaw", "the yen"), strict=True))
    outcomes = {
        (phase, "question", name): outcome(text, Verdict.WRONG)
        for phase in ("before", "after")
        for name, text in texts.items()
    }
    return CaseRecord(case=case, batch="0", outcomes=outcomes)


def values(one: CaseRecord, metric: LongAnswer | None = None) -> dict[str, float | None]:
    found = (metric or LongAnswer()).values(one)
    return {value.aspect: value.value for value in found if value.phase == "after"}


class TestContract(MetricContract):
    name = "long-answer"

    @pytest.fixture
    def record(self) -> CaseRecord:
        return record()


def plain_common_subsequence(one, other) -> int:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, j in itertools.product(range(len(one)), range(len(other))):
        longer = table[i][j] + 1 if one[i] == other[j] else max(table[i][j + 1], table[i + 1][j])
        table[i + 1][j + 1] = longer
    return table[-1][-1]


def test_common_subsequence_equals_the_dynamic_program() -> None:
    made = random.Random(0)
    for _ in range(300):
        one, other = ([made.choice("abcd") for _ in range(made.randrange(90))] for _ in range(2))
        assert common_subsequence(one, other) == plain_common_subsequence(one, other)


def test_gold_repeated_three_times_has_recall_1_and_f1_one_half() -> None:
    found = rouge_l(f"{PARAGRAPH} {PARAGRAPH} {PARAGRAPH}", PARAGRAPH)
    assert (found.recall, found.f1) == (1.0, 0.5)


def test_rouge_n_counts_the_n_grams_of_both_texts() -> None:
    said, wanted = "the cat the cat sat", "the cat sat on the mat"
    assert rouge_n(said, wanted, 1).precision == 4 / 5  # the, the, cat, sat; the second cat has no partner
    assert rouge_n(said, wanted, 1).recall == 4 / 6
    assert rouge_n(said, wanted, 2).precision == 2 / 4  # the cat, cat sat
    assert rouge_n(said, wanted, 2).recall == 2 / 5
    assert rouge_n("cat", wanted, 2).f1 == rouge_n("", wanted, 1).f1 == 0


def test_empty_texts_have_similarity_0() -> None:
    assert rouge_l("", PARAGRAPH).f1 == rouge_l("...", PARAGRAPH).recall == rouge_l("a", "").f1 == 0


def test_bertscore_follows_the_equations() -> None:
    made = np.random.default_rng(0)
    y, x = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (made.normal(size=(n, 5)) for n in (4, 7)))
    recall = sum(max(float(a @ b) for b in y) for a in x) / 7
    precision = sum(max(float(a @ b) for a in x) for b in y) / 4
    found = bertscore(y, x)
    assert found.recall == pytest.approx(recall)
    assert found.precision == pytest.approx(precision)
    assert found.f1 == pytest.approx(2 * precision * recall / (precision + recall))


def test_values_of_a_probe_are_means_over_its_queries() -> None:
    found = values(record(PARAGRAPH, "Naypyidaw", "the old yen"))
    assert found["efficacy-rouge-l"] == 1
    assert found["sub-question-rouge-l"] == pytest.approx((1 + 0.8) / 2)
    assert found["sub-question-rouge-l-recall"] == 1
    assert found["sub-question-rouge-1"] == pytest.approx((1 + 0.8) / 2)
    assert found["sub-question-rouge-2"] == 0  # one word, and no pair of words in order
    assert found["sub-question-fluency"] == pytest.approx(1 / 3)  # two bigrams: 1 bit; one trigram: 0 bits
    assert not any(aspect.startswith("portability") for aspect in found)
    assert not any(aspect.endswith(("-bertscore", "-cosine")) for aspect in found)


def test_fluency_of_answers_under_three_words_has_a_reason() -> None:
    [value] = [v for v in LongAnswer().values(record()) if v.aspect == "sub-question-fluency" and v.phase == "after"]
    assert value.skipped_because == "every answer has fewer than three words"


def test_failed_request_counts_as_an_empty_answer() -> None:
    one = record()
    failed = outcome(Failure(error="ServerFailed", message="down"))
    broken = CaseRecord(case=one.case, batch="0", outcomes={**one.outcomes, ("after", "question", "edit"): failed})
    assert values(broken)["efficacy-rouge-l"] == 0


def test_most_similar_of_several_right_texts_counts() -> None:
    rome = Entity(label="Rome", aliases=("the Eternal City",))
    assert references(Gold(entities=(rome,))) == ["Rome", "the Eternal City"]
    assert references(Gold(entities=(rome, Entity(label="Oslo")), require="any"))[-1] == "Oslo"
    assert references(Gold(entities=(rome, Entity(label="Oslo")))) == ["Rome, Oslo"]


class Letters:
    """An encoder whose vectors count letters; a token is a letter."""

    id = "letters"

    def embed(self, texts):
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], dtype=np.float32)

    def embed_tokens(self, text):
        return self.embed([letter for letter in text if letter in "abc"])


class Sentences:
    """An encoder without vectors of tokens."""

    id = "sentences"
    embed = Letters.embed


def test_encoder_adds_cosine_and_bertscore() -> None:
    found = values(record("aab", "", "c"), LongAnswer(encoder=Letters()))
    wanted = Letters().embed([PARAGRAPH, "aab"])
    assert found["efficacy-cosine"] == pytest.approx(
        float(wanted[0] @ wanted[1] / math.prod(map(np.linalg.norm, wanted)))
    )
    assert found["sub-question-bertscore"] == 0  # an empty answer; "The yen." has none of the letters


def test_encoder_without_token_vectors_has_no_bertscore() -> None:
    found = list(LongAnswer(encoder=Sentences()).values(record("aab", "b", "c")))
    [value] = [one for one in found if one.aspect == "efficacy-bertscore" and one.phase == "after"]
    assert value.skipped_because == "the encoder has no vectors of tokens"


def test_every_aspect_has_a_column() -> None:
    [spec] = ke_metrics()
    shown = {*spec.columns, *(aspect for table in spec.tables.values() for aspect in table)}
    found = {value.aspect for value in LongAnswer(encoder=Sentences()).values(record())}
    assert found <= shown


def test_unedited_model_is_compared_with_the_text_after_the_edit() -> None:
    one = record()
    probe = evolve(one.case.probes[0], queries=(evolve(OWN, pre_edit=gold("Estonia is governed from Tallinn.")),))
    edited = evolve(one, case=evolve(one.case, probes=(probe,)))
    found = {(value.phase, value.aspect): value.value for value in LongAnswer().values(edited)}
    assert found["before", "efficacy-rouge-l"] == found["after", "efficacy-rouge-l"] == 1
