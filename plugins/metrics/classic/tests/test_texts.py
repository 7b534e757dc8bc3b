"""Portability, and measures of generated texts, against numbers computed manually."""

from __future__ import annotations

import json
import math

import pytest

from ke_benchmarks import ngram_entropy
from ke_core.plugin import (
    FLUENCY,
    PORTABILITY,
    BadConfig,
    Case,
    CaseRecord,
    Edit,
    Entity,
    Fact,
    Gold,
    Probe,
    Query,
    Relation,
    Verdict,
)
from ke_plugin_classic import ClassicConfig, build, ke_metrics
from ke_plugin_classic.texts import read
from ke_testing.records import gold, outcome

ROME = Entity(label="Rome", id="Q220")
FACT = Fact(subject=Entity(label="the Tower"), relation=Relation(label="located in", id="P131"), objects=(ROME,))
OPENINGS = tuple(Query(id=f"open-{n}", texts=("The Tower is",), form="cloze", gold=Gold()) for n in (1, 2))
FOLLOWS = Query(id="follows", texts=("Which river is near the Tower?",), gold=gold("Tiber"))
CASE = Case(
    id="1",
    edits=(Edit(id="e", statement="s", after=FACT),),
    probes=(
        Probe(id="portability", aspect=PORTABILITY, queries=(FOLLOWS,), edits=("e",)),
        Probe(id="fluency", aspect=FLUENCY, queries=OPENINGS, phase="both", edits=("e",)),
    ),
)


def record(*texts: str, verdict: Verdict = Verdict.RIGHT, phase: str = "after") -> CaseRecord:
    told = {("after", "direct", "follows"): outcome("Tiber", verdict)}
    written = {
        (phase, "direct", query.id): outcome(text, Verdict.UNSURE) for query, text in zip(OPENINGS, texts, strict=False)
    }
    return CaseRecord(case=CASE, batch="0", outcomes=told | written)


def values(one: CaseRecord, config: ClassicConfig | None = None) -> dict[tuple[str, str], float | str | None]:
    found = build(config or ClassicConfig()).values(one)
    return {(v.aspect, v.phase): v.skipped_because or v.value for v in found}


def test_portability_is_the_verdict() -> None:
    assert values(record("a b c", "a b c"))[PORTABILITY, "after"] == 1
    assert values(record("a b c", "a b c", verdict=Verdict.PRE_EDIT))[PORTABILITY, "after"] == 0


def test_fluency_of_known_texts() -> None:
    """Four words, three different bigrams, two trigrams: (log2 3 + 2 log2 2) / 3. A repeated word: 0."""
    assert ngram_entropy("It is in Rome.") == pytest.approx((math.log2(3) + 2) / 3)
    assert ngram_entropy("rome rome rome rome") == 0
    assert ngram_entropy("in Rome") is None
    assert values(record("It is in Rome.", "rome rome rome"))[FLUENCY, "after"] == pytest.approx((math.log2(3) + 2) / 6)


def test_texts_of_the_unedited_model_are_measured() -> None:
    assert values(record("a b c d", "a b c d", phase="before"))[FLUENCY, "before"] == pytest.approx(
        (math.log2(3) + 2) / 3
    )


def test_short_or_missing_texts_have_a_reason() -> None:
    assert values(record("in", ""))[FLUENCY, "after"] == "every text has fewer than three words"
    assert values(record("a b c"))[FLUENCY, "after"] == "a question has no recorded answer"
    assert values(record())[FLUENCY, "after"] == "a question has no recorded answer"
    skipped = CaseRecord(case=CASE, batch="0", skipped="refused")
    assert set(values(skipped).values()) == {"refused"}


@pytest.fixture
def references(tmp_path):
    file = tmp_path / "snippets.json"
    texts = {"Q220": "tiber forum", "Q90": "seine forum"}
    places = [
        {"relation_id": "P131", "target_id": thing, "samples": [{"name": "x", "text": text}]}
        for thing, text in texts.items()
    ]
    file.write_text(json.dumps(places))
    return file


def test_consistency_of_known_texts(references) -> None:
    """N = 2: the weight of "tiber", in one text, is ln(3/2) + 1; that of "forum", in both texts, is 1."""
    tiber = math.log(3 / 2) + 1
    config = ClassicConfig(references=str(references))
    found = values(record("tiber", ""), config)
    assert found["consistency", "after"] == pytest.approx(tiber / math.hypot(tiber, 1))
    assert values(record("tiber", "forum"), config)["consistency", "after"] == pytest.approx(1)
    other_words = values(record("tiber", "forum and more"), config)
    assert other_words["consistency", "after"] == pytest.approx(1)  # words of no reference text do not count
    assert values(record("seine", ""), config)["consistency", "after"] == 0
    assert ("consistency", "after") not in values(record("tiber", ""))


def test_no_similarity_without_reference_text(references) -> None:
    assert read(str(references)).similarity("tiber", ("P131", "Q1")) is None


@pytest.mark.parametrize(
    "content", ["", "[]", '[{"relation_id": "P1", "target_id": "Q1", "samples": [{}]}]', '[{"P1": 3}]', "3"]
)
def test_invalid_reference_file_is_named(tmp_path, content) -> None:
    file = tmp_path / "bad.json"
    file.write_text(content)
    with pytest.raises(BadConfig, match=r"classic\.references: .*bad\.json (is not a file of references|is empty)"):
        build(ClassicConfig(references=str(file)))


def test_columns_of_the_second_table_match_aspects(references) -> None:
    (spec,) = ke_metrics()
    _ahead, table = spec.tables.values()
    config = ClassicConfig(references=str(references))
    assert set(table) == {aspect for aspect, _phase in values(record("a b c", "a b c"), config)}
