"""The fact memory returns the nearest facts deterministically and hides facts per question."""

import subprocess
import sys

import numpy as np
import pytest

from ke_core.plugin import BadData, Hit
from ke_memory.plugin import FactMemory, best_rows
from ke_testing.fakes import WordEncoder
from ke_testing.process import imported_by

FACTS = [(f"e{i}", f"The {what} of {where} is {value}") for i, (what, where, value) in enumerate(
    (what, where, f"{what[0]}{n}")
    for what in ("capital", "currency", "language", "continent")
    for n, where in enumerate(("France", "Japan", "Peru", "Kenya", "Oman"))
)]  # fmt: skip
NOTHING: frozenset[str] = frozenset()


class Given:
    """An encoder with a vector for each text."""

    id = "given"

    def __init__(self, vectors):
        self.vectors = vectors
        self.seen: list[str] = []

    def embed(self, texts):
        self.seen += texts
        return np.array([self.vectors[text] for text in texts], dtype=np.float32).reshape(len(texts), -1)


def memory() -> FactMemory:
    return FactMemory(WordEncoder(), FACTS)


def test_nearest_facts_come_first_with_their_dot_products():
    found = memory().search(["the capital of Japan", "currency of Peru is"], k=3, hidden=[NOTHING] * 2)
    assert [hits[0].id for hits in found] == ["e1", "e7"]
    for question, hits in zip(("the capital of Japan", "currency of Peru is"), found, strict=True):
        scores = WordEncoder().embed([question])[0] @ WordEncoder().embed([text for _, text in FACTS]).T
        assert [hit.score for hit in hits] == pytest.approx(sorted(scores, reverse=True)[:3], abs=1e-6)
        assert all(dict(FACTS)[hit.id] == hit.text for hit in hits)


def test_batched_and_single_queries_agree():
    questions = [text.removesuffix(text.split()[-1]) for _, text in FACTS]
    hidden = [frozenset({f"e{(i * 7) % 20}", f"e{i}"}) if i % 2 else NOTHING for i in range(len(questions))]
    together = memory().search(questions, k=5, hidden=hidden)
    for question, unseen, hits in zip(questions, hidden, together, strict=True):
        (alone,) = memory().search([question], k=5, hidden=[unseen])
        assert [hit.id for hit in alone] == [hit.id for hit in hits]
        assert [hit.score for hit in alone] == pytest.approx([hit.score for hit in hits], abs=1e-6)


def test_chunked_and_whole_products_agree(monkeypatch):
    from ke_memory import memory as module

    questions = [text for _, text in FACTS]
    whole = memory().search(questions, k=2, hidden=[NOTHING] * 20)
    monkeypatch.setattr(module, "SCORES", 60)
    assert [[hit.id for hit in hits] for hits in memory().search(questions, k=2, hidden=[NOTHING] * 20)] == [
        [hit.id for hit in hits] for hits in whole
    ]


def test_subclass_can_redefine_the_score(monkeypatch):
    """Empty and hidden rows, and how much is compared at once, are no business of its own."""

    class Shortest(FactMemory):
        def compare(self, queries):
            return -np.tile([len(self.text(row)) for row in range(len(self.vectors))], (len(queries), 1)).astype("f4")

    facts = [("long", "a fact of words"), ("gone", "a"), ("short", "a fact"), ("hidden", "is")]
    found = Shortest(WordEncoder(), facts)
    found.remove(["gone"])
    hidden = [frozenset({"hidden"}), NOTHING]
    monkeypatch.setattr("ke_memory.memory.SCORES", 4)  # one question at a time
    assert [[hit.id for hit in hits] for hits in found.search(["x", "y"], k=2, hidden=hidden)] == [
        ["short", "long"],
        ["hidden", "short"],
    ]
    parts = list(found.scores(WordEncoder().embed(["x", "y"]), hidden))
    assert [part for part, _scores in parts] == [slice(0, 1), slice(1, 2)]
    lines = [[found.hit(row, one[row]).id for row in best_rows(one, 9)] for _part, many in parts for one in many]
    assert lines == [["short", "long"], ["hidden", "short", "long"]]


def test_facts_are_hidden_per_question():
    found = memory().search(["capital of Japan"] * 3, k=1, hidden=[NOTHING, frozenset({"e1", "not there"}), NOTHING])
    assert [hits[0].id for hits in found] == ["e1", found[1][0].id, "e1"]
    assert found[1][0].id != "e1"


def test_masking_equals_a_memory_without_those_rows():
    unseen = frozenset({"e1", "e5", "e11"})
    rest = FactMemory(WordEncoder(), [fact for fact in FACTS if fact[0] not in unseen])
    (masked,) = memory().search(["currency of Japan"], k=30, hidden=[unseen])
    (without,) = rest.search(["currency of Japan"], k=30, hidden=[NOTHING])
    assert [(hit.id, round(hit.score, 6)) for hit in masked] == [(hit.id, round(hit.score, 6)) for hit in without]


def test_fewer_hits_are_returned_if_fewer_facts_are_left():
    small = FactMemory(WordEncoder(), FACTS[:3])
    hidden = [NOTHING, frozenset({"e0"}), frozenset({"e0", "e1", "e2"})]
    assert [len(hits) for hits in small.search(["q"] * 3, k=9, hidden=hidden)] == [3, 2, 0]
    assert [len(hits) for hits in small.search(["q"] * 3, k=2, hidden=hidden)] == [2, 2, 0]


def test_empty_memory_returns_no_hits_and_embeds_nothing():
    encoder = Given({})
    empty = FactMemory(encoder)
    assert empty.search(["q", "r"], k=3, hidden=[NOTHING] * 2) == [(), ()]
    assert encoder.seen == []
    assert memory().search([], k=1, hidden=[]) == []


def test_ties_are_ordered_by_insertion():
    vectors = {"q": [1, 0], "far": [0, 1]} | {f"t{i}": [1, 0] for i in range(50)}
    names = [f"t{(i * 17) % 50}" for i in range(50)]
    tied = FactMemory(Given(vectors), [("far", "far"), *((name, name) for name in names)])
    for k in (1, 7, 50, 51):
        (hits,) = tied.search(["q"], k=k, hidden=[NOTHING])
        assert [hit.id for hit in hits] == [*names, "far"][:k]


def test_ties_do_not_depend_on_rounding_errors():
    third = 1 / 3
    vectors = {"q": [1, 1, 1], "a": [third, third, third - 1e-8], "b": [third, third, third]}
    (hits,) = FactMemory(Given(vectors), [("a", "a"), ("b", "b")]).search(["q"], k=2, hidden=[NOTHING])
    assert [hit.id for hit in hits] == ["a", "b"]


@pytest.mark.integration
def test_results_do_not_depend_on_the_hash_seed():
    code = (
        "from ke_memory.plugin import FactMemory; from ke_testing.fakes import WordEncoder\n"
        "facts = [(f'e{i}', f'fact about {i % 4}') for i in range(40)]\n"
        "hidden = [frozenset({f'e{i}', f'e{i + 4}'}) for i in range(8)]\n"
        "found = FactMemory(WordEncoder(), facts).search([f'about {i}' for i in range(8)], k=6, hidden=hidden)\n"
        "print([[hit.id for hit in hits] for hits in found])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
    assert b"e8" in outputs.pop()


def test_facts_are_unique_and_only_new_ones_are_embedded():
    encoder = Given({"one": [1, 0], "two": [0, 1], "three": [1, 1], "q": [0, 1]})
    grown = FactMemory(encoder, [("a", "one"), ("b", "two"), ("a", "three")])
    assert grown.facts == (("a", "one"), ("b", "two"))
    grown.add([("b", "one"), ("c", "three")])
    assert encoder.seen == ["one", "two", "three"]
    assert len(grown) == 3
    assert grown.search(["q"], k=2, hidden=[NOTHING]) == [
        (Hit(id="b", text="two", score=1.0), Hit(id="c", text="three", score=1.0))
    ]


def test_removed_facts_leave_no_trace():
    less = memory()
    less.remove(["e3", "e19", "not there"])
    other = FactMemory(WordEncoder(), [fact for fact in FACTS if fact[0] not in {"e3", "e19"}])
    for each in (less, other):
        each.add([("e3", "The capital of Kenya is elsewhere")])
    assert less.facts == other.facts
    assert less.search(["capital of Kenya"], k=20, hidden=[NOTHING]) == other.search(
        ["capital of Kenya"], k=20, hidden=[NOTHING]
    )
    less.remove([name for name, _ in less.facts])
    assert less.search(["q"], k=1, hidden=[NOTHING]) == [()]
    less.add([("n", "a new one")])
    assert less.search(["q"], k=1, hidden=[NOTHING])[0][0].id == "n"


def test_failed_embedding_changes_nothing():
    some = memory()
    some.encoder = Given({})
    with pytest.raises(KeyError):
        some.change(add=[("e3", "The capital of Kenya is elsewhere")], remove=["e3", "e19"])
    assert some.facts == tuple(FACTS)


def test_removed_id_can_be_added_again_in_one_change():
    some = memory()
    some.change(add=[("e3", "The capital of Kenya is elsewhere"), ("e4", "unheard")], remove=["e3"])
    assert dict(some.facts) == dict(FACTS) | {"e3": "The capital of Kenya is elsewhere"}


def test_large_memory_agrees_with_sorting_all_scores():
    """Hidden and removed rows, equal vectors, many facts and few: the short cut to the k best changes nothing."""
    draw = np.random.default_rng(0)
    for count in (50, 700, 5000):
        vectors = draw.normal(size=(count, 8)).astype(np.float32)
        vectors[::3] = vectors[0]
        names = [f"e{row}" for row in range(count)]
        given = Given(dict(zip(names, vectors, strict=True)) | {"q": draw.normal(size=8)})
        large = FactMemory(given, [(name, name) for name in names])
        large.remove(names[1::10])
        unseen = frozenset(names[2::10])
        left = [row for row in range(count) if row % 10 not in (1, 2)]
        scores = np.round(vectors @ np.asarray(given.vectors["q"], dtype=np.float32), 6)
        expected = [names[left[at]] for at in np.argsort(-scores[left], kind="stable")]
        for k in (1, 10, 300, count):
            (hits,) = large.search(["q"], k=k, hidden=[unseen])
            assert [hit.id for hit in hits] == expected[:k]


def test_incremental_changes_equal_one_addition():
    """Rows are added where there is room, emptied, and packed; none of it shows."""
    grown = FactMemory(WordEncoder())
    for at, fact in enumerate(FACTS):
        grown.add([fact])
        if at % 2:
            grown.remove([FACTS[at - 1][0]])
    kept = FACTS[1::2]
    assert grown.facts == tuple(kept)
    assert len(grown) == len(kept)
    assert grown.search(["currency of Peru"], k=20, hidden=[NOTHING]) == FactMemory(WordEncoder(), kept).search(
        ["currency of Peru"], k=20, hidden=[NOTHING]
    )
    for name, _text in kept:
        grown.remove([name])
    assert (grown.facts, len(grown)) == ((), 0)


def test_empty_rows_are_not_saved(tmp_path):
    some = memory()
    some.remove(["e0", "e7"])
    some.save(tmp_path / "m")
    again = FactMemory.load(tmp_path / "m", WordEncoder())
    assert again.facts == some.facts == tuple(fact for fact in FACTS if fact[0] not in {"e0", "e7"})
    again.add([("new", "currency of Peru is new")])
    assert again.search(["currency of Peru is new"], k=1, hidden=[NOTHING])[0][0].id == "new"


def test_saved_memory_is_loaded_without_embedding(tmp_path):
    encoder = Given({"öne": [1, 0], "two": [0, 1]})
    FactMemory(encoder, [("a", "öne"), ("b", "two")]).save(tmp_path / "m.safetensors")
    again = FactMemory.load(tmp_path / "m.safetensors", encoder)
    assert encoder.seen == ["öne", "two"]
    assert again.facts == (("a", "öne"), ("b", "two"))
    assert again.search(["two"], k=1, hidden=[NOTHING])[0][0].id == "b"
    FactMemory(encoder).save(tmp_path / "empty.safetensors")
    assert len(FactMemory.load(tmp_path / "empty.safetensors", encoder)) == 0


def test_memory_of_another_encoder_or_damaged_memory_is_rejected(tmp_path):
    memory().save(tmp_path / "m")
    with pytest.raises(BadData, match="was not made with the encoder"):
        FactMemory.load(tmp_path / "m", WordEncoder(64))
    (tmp_path / "m").write_bytes((tmp_path / "m").read_bytes()[:100])
    with pytest.raises(BadData, match="is damaged: it has no checksum"):
        FactMemory.load(tmp_path / "m", WordEncoder())
    with pytest.raises(BadData, match="is not a saved fact memory"):
        FactMemory.load(tmp_path / "absent", WordEncoder())


def test_fact_memory_does_not_import_torch():
    assert imported_by("from ke_memory.plugin import FactMemory", "torch", "transformers") == []
