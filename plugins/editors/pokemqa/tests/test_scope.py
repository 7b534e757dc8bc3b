"""Search with the detector: both stages, number of candidates, hidden edits, ties."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ke_memory.plugin import FactMemory
from ke_plugin_pokemqa.scope import Detector, NearestMemory, ScopeMemory, probabilities

AT_HALF = math.sqrt(math.log(2))


class PointEncoder:
    """The vector of "0.3 a" is (0.3, 0)."""

    id = "fake:points"

    def embed(self, texts):
        return np.array([[float(text.split()[0]), 0.0] for text in texts], dtype=np.float32).reshape(-1, 2)


def memory(*facts: str, judged=None, confirm: bool = False, scale: float = 1.0, offset=(0, 0)):
    asked: list[tuple[str, ...]] = []

    def judge(edits, questions):
        assert len(edits.texts) == len(edits.vectors) == len(questions.texts) == len(questions.vectors)
        asked.append(tuple(edits.texts))
        return np.array([(judged or {})[text] for text in edits.texts], dtype=np.float32)

    detector = Detector(
        encoder=PointEncoder(), scale=scale, offset=np.array(offset, dtype=np.float32), judge=judge, confirm=confirm
    )
    made = ScopeMemory(detector)
    made.add((fact, fact) for fact in facts)
    return made, asked


def found(made, text="0", hidden=frozenset()):
    (hits,) = made.search([text], k=1, hidden=[hidden])
    return tuple(hit.id for hit in hits)


def test_p_is_one_half_at_squared_distance_ln_2() -> None:
    for scale, offset in ((1.0, 0.0), (2.0, 0.5)):
        at = np.array([[AT_HALF / scale, 0]], dtype=np.float32)
        p = probabilities(at, np.array([[offset, 0]], dtype=np.float32), scale, np.array([offset, 0], dtype=np.float32))
        assert p == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(("near", "hit"), [(AT_HALF - 1e-4, True), (AT_HALF + 1e-4, False)])
def test_edit_is_a_candidate_up_to_that_distance(near, hit) -> None:
    made, asked = memory(f"{near} e")
    assert bool(found(made)) == hit
    assert not asked


def test_without_a_candidate_no_edit_is_in_scope() -> None:
    made, asked = memory("2 a", "3 b")
    assert found(made) == ()
    assert not asked


def test_single_candidate_is_used_unchecked_as_published() -> None:
    made, asked = memory("0.1 a", "3 b")
    assert found(made) == ("0.1 a",)
    assert not asked


@pytest.mark.parametrize(("probable", "expected"), [(0.7, ("0.1 a",)), (0.3, ())])
def test_single_candidate_is_checked_with_confirm(probable, expected) -> None:
    made, asked = memory("0.1 a", "3 b", judged={"0.1 a": probable}, confirm=True)
    assert found(made) == expected
    assert asked == [("0.1 a",)]


@pytest.mark.parametrize(("far", "expected"), [(0.9, ("0.2 b",)), (0.55, ("0.1 a",)), (0.2, ("0.1 a",))])
def test_disambiguator_selects_among_candidates(far, expected) -> None:
    made, asked = memory("0.1 a", "0.2 b", "3 c", judged={"0.1 a": 0.6, "0.2 b": far})
    assert found(made) == expected
    assert asked == [("0.1 a", "0.2 b")]


def test_no_edit_in_scope_without_a_probable_candidate() -> None:
    made, _asked = memory("0.1 a", "0.2 b", judged={"0.1 a": 0.4, "0.2 b": 0.49})
    assert found(made) == ()


def test_first_of_equal_candidates_wins() -> None:
    for facts in (("0.1 b", "0.2 a"), ("0.2 a", "0.1 b")):
        made, _asked = memory(*facts, judged={"0.1 b": 0.8, "0.2 a": 0.8 + 1e-8})
        assert found(made) == facts[:1]


def test_hidden_edits_are_not_candidates() -> None:
    made, _asked = memory("0.1 a", "0.2 b", judged={"0.1 a": 0.9, "0.2 b": 0.8})
    both = made.search(["0", "0"], k=1, hidden=[frozenset({"0.1 a", "unknown"}), frozenset({"0.1 a", "0.2 b"})])
    assert [tuple(hit.id for hit in hits) for hits in both] == [("0.2 b",), ()]


def test_batched_search_equals_single_searches() -> None:
    judged = {"0.1 a": 0.9, "0.2 b": 0.8, "5 c": 0.7, "5.1 d": 0.95}
    made, asked = memory(*judged, judged=judged)
    together = made.search(["0", "9", "5.2"], k=1, hidden=[frozenset()] * 3)
    assert len(asked) == 1
    alone = [made.search([text], k=1, hidden=[frozenset()])[0] for text in ("0", "9", "5.2")]
    assert together == alone
    assert [hits[0].id if hits else None for hits in together] == ["0.1 a", None, "5.1 d"]


def test_edits_are_added_and_removed() -> None:
    made, _asked = memory("0.1 a", "0.4 b", "3 c", judged={"0.1 a": 0.9, "0.4 b": 0.8, "0.3 d": 0.95})
    made.remove(["0.1 a"])
    assert found(made) == ("0.4 b",)
    made.add([("0.3 d", "0.3 d")])
    assert found(made) == ("0.3 d",)
    made.remove(["0.3 d", "0.4 b", "3 c"])
    assert found(made) == ()
    assert len(made) == 0


def test_large_searches_are_split(monkeypatch) -> None:
    made, _asked = memory("0.1 a", "3 c")
    monkeypatch.setattr("ke_memory.memory.SCORES", 3)
    assert [len(hits) for hits in made.search(["0", "3", "9"], k=1, hidden=[frozenset()] * 3)] == [1, 1, 0]


def test_empty_search_and_empty_memory() -> None:
    made, _asked = memory()
    assert made.search([], k=1, hidden=[]) == []
    assert found(made) == ()


def test_nearest_memory_applies_its_threshold() -> None:
    class Words:
        id = "fake:two"

        def embed(self, texts):
            return np.array([[1, 0] if "x" in text else [0.6, 0.8] for text in texts], dtype=np.float32)

    for threshold, expected in ((0.59, 1), (0.61, 0)):
        made = NearestMemory(Words(), threshold)
        assert isinstance(made, FactMemory)
        made.add([("e", "edit")])
        assert len(made.search(["x"], k=1, hidden=[frozenset()])[0]) == expected
