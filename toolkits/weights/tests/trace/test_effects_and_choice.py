"""Averages by token role, and the layers that follow from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from numpy.typing import NDArray

from ke_core.plugin import ArtifactStore, BadData, Shape
from ke_weights.trace.choice import choose
from ke_weights.trace.effects import effects, roles
from ke_weights.trace.settings import FactTrace
from ke_weights.trace.suggestion import Suggestion, store, suggested

SHAPE = Shape(family="llama", blocks=30, hidden=576, inner=1536, rms_norm=True)
GUESS = Suggestion(rome_layer=3, memit_layers=(2, 3), rule="not traced (5 facts, and 50 are needed): x", facts=5)


def fact(length: int, subject: tuple[int, int], *, low: float = 0.1, high: float = 0.5) -> FactTrace:
    """Scores that say which token and layer they are of."""
    scores = tuple(tuple(low + token + layer / 10 for layer in range(3)) for token in range(length))
    return FactTrace(
        known_id="1", subject="s", prompt="p", attribute="a", answer="a", correct_prediction=True, high_score=high,
        low_score=low, input_ids=tuple(range(length)), input_tokens=(), subject_range=subject,
        tokens=tuple(range(length)), scores={"states": scores},
    )  # fmt: skip


def test_roles_are_the_six_published_groups() -> None:
    found = {role: list(at) for role, at in roles(fact(9, (1, 5))).items()}
    assert found == {
        "first subject": [1], "middle subject": [2, 3], "last subject": [4],
        "next": [5], "further": [6, 7], "last": [8],
    }  # fmt: skip


def test_subject_of_one_token_is_first_and_last() -> None:
    found = effects([fact(3, (1, 2))])
    lines = found.lines["states"]
    assert lines["first subject"] == lines["last subject"]
    assert "middle subject" not in lines
    assert "further" not in lines
    assert lines["next"] == lines["last"]
    assert not np.isnan([line.effect + line.interval for line in lines.values()]).any()


def test_a_subject_that_ends_the_prompt_has_nothing_next_to_it() -> None:
    lines = effects([fact(3, (1, 3))]).lines["states"]
    assert "next" not in lines
    assert lines["last subject"] == lines["last"]


def test_effects_are_differences_to_each_prompts_own_low_score() -> None:
    found = effects([fact(6, (1, 3), low=0.1), fact(6, (1, 3), low=0.3, high=0.9)])
    line = found.lines["states"]["last subject"]
    assert line.effect == pytest.approx((2.0, 2.1, 2.2))
    assert line.interval == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)
    assert (line.count, line.best) == (2, 2)
    assert (found.facts, found.total) == (2, pytest.approx(0.5))


def test_intervals_use_the_count_of_their_own_group() -> None:
    found = effects([fact(8, (1, 3)), fact(8, (1, 5))])
    further = found.lines["states"]["further"]
    tokens = np.array([4.0, 5.0, 6.0, 6.0])
    assert further.count == 4
    assert further.effect[0] == pytest.approx(tokens.mean())
    assert further.interval[0] == pytest.approx(1.96 * tokens.std() / 2)


def test_skipped_facts_do_not_count() -> None:
    skipped = evolve(fact(4, (1, 2)), low_score=None, scores={}, skipped="answered otherwise", high_score=99.0)
    assert effects([skipped, fact(4, (1, 2))]).facts == 1


def test_of_the_last_subject_token_alone_nothing_else_is_averaged() -> None:
    whole = fact(4, (1, 2))
    alone = evolve(whole, tokens=(1,), scores={"states": whole.scores["states"][1:2]})
    assert set(effects([alone]).lines["states"]) == {"last subject"}


def curves(
    through: list[float], mlp: list[float], *, facts: int = 60, spread: float = 0.0
) -> dict[str, NDArray[np.float64]]:
    """Curves of facts that differ by noise: what MLPs carry, and the MLP windows."""
    noise = np.random.default_rng(0).normal(0, spread, (facts, 1)) if spread else 0.0
    carried = np.tile(through, (facts, 1)) + noise
    return {"states": carried + 0.1, "severed-mlp": np.full_like(carried, 0.1), "mlp": np.tile(mlp, (facts, 1))}


def step(last: int, blocks: int = 30) -> list[float]:
    """Effect 1 up to a layer, and none above."""
    return [1.0] * (last + 1) + [0.0] * (blocks - last - 1)


def peak(at: int, blocks: int = 30) -> list[float]:
    return [float(layer == at) for layer in range(blocks)]


@pytest.mark.parametrize(
    ("last", "top", "rome", "memit"),
    [
        (8, 5, 5, (3, 4, 5, 6, 7, 8)),  # GPT-J's six
        (6, 5, 5, (2, 3, 4, 5, 6)),
        (8, 20, 8, (3, 4, 5, 6, 7, 8)),  # no higher than the last layer
        (8, 0, 1, (3, 4, 5, 6, 7, 8)),  # never the first
        (2, 1, 1, (0, 1, 2)),
        (29, 5, 5, (23, 24, 25, 26, 27, 28)),  # never the last
    ],
)
def test_layers_follow_the_rule(last: int, top: int, rome: int, memit: tuple[int, ...]) -> None:
    found = choose(curves(step(last), peak(top)), SHAPE)
    assert found is not None
    assert (found.rome_layer, found.memit_layers, found.facts) == (rome, memit, 60)
    assert found.rule.startswith("traced")


def test_a_deep_model_gets_five_layers() -> None:
    found = choose(curves(step(17, 48), peak(15, 48)), evolve(SHAPE, blocks=48))
    assert found is not None
    assert found.memit_layers == (13, 14, 15, 16, 17)


def test_a_dent_of_one_layer_does_not_end_the_range() -> None:
    carried = step(10)
    carried[7] = 0.3
    found = choose(curves(carried, peak(5)), SHAPE)
    assert found is not None
    assert found.memit_layers[-1] == 10


@pytest.mark.parametrize(
    ("facts", "spread", "level", "told"),
    [
        (49, 0.0, 1.0, "49 facts, fewer than 50"),
        (60, 9.0, 1.0, "standard errors"),
        (60, 0.0, -1.0, "the effect of MLPs"),
    ],
)
def test_too_few_facts_or_no_clear_effect_give_the_layers_of_the_shape(
    facts: int, spread: float, level: float, told: str
) -> None:
    found = choose(curves([level * one for one in step(8)], peak(5), facts=facts, spread=spread), SHAPE)
    assert found is not None
    assert (found.rome_layer, found.memit_layers) == (5, (4, 5, 6, 7, 8))
    assert not found.traced
    assert told in found.rule
    assert "27% of 30 blocks" in found.rule


def test_without_the_severed_curve_nothing_is_suggested() -> None:
    given = curves(step(8), peak(5))
    del given["severed-mlp"]
    assert choose(given, SHAPE) is None


def test_a_suggestion_is_found_again_by_the_models_digest(tmp_path: Path) -> None:
    artifacts = ArtifactStore(tmp_path)
    assert suggested(artifacts, "abc") is None
    store(artifacts, "abc", GUESS)
    assert suggested(artifacts, "abc") == GUESS
    assert suggested(artifacts, "other") is None


def test_layers_of_the_shape_never_take_the_place_of_traced_ones(tmp_path: Path) -> None:
    artifacts = ArtifactStore(tmp_path)
    traced = evolve(GUESS, rule="traced: x", facts=200)
    later = evolve(traced, rome_layer=9)
    for one, kept in ((GUESS, GUESS), (traced, traced), (GUESS, traced), (later, later)):
        store(artifacts, "abc", one)
        assert suggested(artifacts, "abc") == kept


@pytest.mark.parametrize("content", [b"{", b'{"rome_layer": 3}', b"\xff"])
def test_a_damaged_suggestion_says_which_file_to_delete(tmp_path: Path, content: bytes) -> None:
    artifacts = ArtifactStore(tmp_path)
    store(artifacts, "abc", GUESS)
    artifacts.path("trace", {"model": "abc"}, ".json").write_bytes(content)
    with pytest.raises(BadData) as told:
        suggested(artifacts, "abc")
    assert told.value.hint.startswith("delete ")
