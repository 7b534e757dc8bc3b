"""Answers of two models, routed and mixed by the scope of the edits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from ke_core.plugin import BadConfig, Entity, Failure, Generate, Hit, KEWarning, Likelihood, Parse, Score, Scored
from ke_plugin_hf.testing import saved, tiny_model
from ke_plugin_serac.editor import Route, Serac, SeracModel, mixed, with_edit
from ke_plugin_serac.scope import WeightedScopeMemory, scope_key, scopes
from ke_plugin_serac.trained import load_trained
from ke_testing.examples import (
    BERLIN,
    FOUR_MOVES,
    FREE_FORM,
    MOVE_GATE,
    MOVE_TOWER,
    PARIS,
    QUESTIONS,
    TEXT_ONLY,
    TOWER,
    city_edit,
)
from ke_testing.fakes import WordEncoder, make_session

LIKELIHOODS = tuple(
    Likelihood(
        id=f"l{place}", case="1", query=f"l{place}", texts=(text,), prompt=text, continuations=(" Rome", " New York")
    )
    for place, text in enumerate(("Eiffel Tower is located in", "In which city is Prado?", "Bees find flowers"))
)
ASKS = (*QUESTIONS, *LIKELIHOODS)
SCORES = Scored(logprobs=(-1.0, -2.0), tokens=(2, 3), matches=(0, 0))


def model_of(kit: Any, root: Path, edits: Sequence[Any], *, weight: float = 1.0, base: Any = None) -> SeracModel:
    """Return an edited model whose classifier has w = ``weight`` everywhere: all in scope if 0, none if infinite."""
    session = kit.session(base or tiny_model(), root)
    trained = load_trained(session, kit.config)
    return SeracModel(session, edits, evolve(trained, weights=np.full_like(trained.weights, weight)))


def scored(model: Any, asks: Sequence[Likelihood], context: str = "") -> Any:
    return model.score([Score(prompt=context + ask.prompt, continuations=ask.continuations) for ask in asks])


def generated(model: Any, context: str = "") -> list[str]:
    asks = [Generate(prompt=context + ask.prompt.text, max_tokens=8, stop=("\n",)) for ask in QUESTIONS]
    return [found.text for found in model.generate(asks)]


def test_without_edits_the_base_model_answers_bit_for_bit(kit: Any, tmp_path: Path) -> None:
    base = tiny_model()
    edited = model_of(kit, tmp_path, [], base=base)
    assert [reply.raw for reply in edited.answer(QUESTIONS)] == generated(base)
    assert edited.answer(LIKELIHOODS) == scored(base, LIKELIHOODS)


def test_scope_0_is_the_base_and_scope_1_the_counterfactual_model(kit: Any, tmp_path: Path) -> None:
    base = tiny_model()
    out = model_of(kit, tmp_path, [MOVE_TOWER], weight=1e6, base=base)
    assert out.answer(LIKELIHOODS[1:]) == scored(base, LIKELIHOODS[1:])
    assert [reply.raw for reply in out.answer(QUESTIONS)] == generated(base)
    every = model_of(kit, tmp_path, [MOVE_TOWER], weight=0.0, base=base)
    context, small = f"{MOVE_TOWER.statement}.\n", every.trained.small.model
    assert every.answer(LIKELIHOODS) == scored(small, LIKELIHOODS, context)
    assert [reply.raw for reply in every.answer(QUESTIONS)] == generated(small, context)


def test_scores_are_the_mixture_of_both_models(kit: Any, tmp_path: Path) -> None:
    base = tiny_model()
    edited = model_of(kit, tmp_path, FOUR_MOVES, weight=0.7, base=base)
    encoder = WordEncoder()
    for ask, reply in zip(LIKELIHOODS, edited.answer(LIKELIHOODS), strict=True):
        query = encoder.embed([ask.texts[0]])[0]
        apart = [float(((encoder.embed([edit.prompt])[0] - query) ** 2).sum()) for edit in FOUR_MOVES]
        s = math.exp(-0.7 * min(apart))
        nearest = [edit for edit, one in zip(FOUR_MOVES, apart, strict=True) if one < min(apart) + 1e-6][-1]
        (one,) = scored(base, [ask])
        (other,) = scored(edited.trained.small.model, [ask], f"{nearest.statement}.\n")
        pairs = zip(one.logprobs, other.logprobs, strict=True)
        mixture = [math.log((1 - s) * math.exp(a) + s * math.exp(b)) for a, b in pairs]
        assert reply.logprobs == pytest.approx(mixture, abs=1e-5)


@pytest.mark.parametrize(
    ("base", "s", "error", "chosen"),
    [
        (SCORES, 0.5, "ContextOverflow", "base"),
        (SCORES, 0.51, "ContextOverflow", "small"),
        (SCORES, 0.1, "ServerDown", "small"),  # another attempt gives the mixture
        (Failure(error="ContentRefused", message="no"), 0.1, "ContextOverflow", "base"),
    ],
)
def test_failed_counterfactual_model_does_not_replace_scores_out_of_scope(
    base: Any, s: float, error: str, chosen: str
) -> None:
    small = Failure(error=error, message="failed")
    route = Route.of(LIKELIHOODS[0], (Hit(id="e", text="e", score=s),))
    assert route.reply(base, small) == {"base": base, "small": small}[chosen]


def test_scores_of_a_text_too_long_for_the_counterfactual_model(kit: Any, tmp_path: Path) -> None:
    short, base = tiny_model(seed=1), tiny_model()
    short.tokenizer.model_max_length = short.module.config.max_position_embeddings = 80
    kit.config = evolve(kit.config, counterfactual=str(saved(short, tmp_path / "short")))
    edited, inside = (model_of(kit, tmp_path, [MOVE_TOWER], weight=weight, base=base) for weight in (1.0, 0.0))
    long = evolve(LIKELIHOODS[2], prompt="Bees find flowers. " * 10, texts=("Bees find flowers. " * 10,))
    assert edited.trained.small.model.context == 80 < len(base.encode(long.prompt)) < base.context
    with pytest.warns(KEWarning, match="1 score is of the base model only .* failed with ContextOverflow"):
        assert edited.answer([long]) == scored(base, [long])
    (failed,) = inside.answer([long])
    assert isinstance(failed, Failure)
    assert failed.error == "ContextOverflow"


@pytest.mark.parametrize(("s", "chosen"), [(0.5, "base"), (0.51, "small")])
def test_greedy_tokens_are_those_of_the_model_that_would_generate(s: float, chosen: str) -> None:
    both = {
        "base": Scored(logprobs=(-1.0,), tokens=(2,), matches=(2,)),
        "small": Scored(logprobs=(-900.0,), tokens=(3,), matches=(1,)),
    }
    found = mixed(s, both["base"], both["small"])
    assert (found.tokens, found.matches) == (both[chosen].tokens, both[chosen].matches)
    assert found.logprobs == pytest.approx([math.log1p(-s) - 1], abs=1e-9)


def test_scopes_are_exponentials_of_weighted_distances() -> None:
    rng = np.random.default_rng(0)
    keys, queries = (rng.normal(size=(n, 5)).astype(np.float32) for n in (3, 2))
    weights = rng.uniform(0.1, 0.5, size=5).astype(np.float32)
    plain = [[math.exp(-sum(w * (a - b) ** 2 for w, a, b in zip(weights, k, q))) for k in keys] for q in queries]  # noqa: B905
    assert scopes(keys, queries, weights) == pytest.approx(np.array(plain), abs=1e-5)


def test_order_of_edits_does_not_matter(kit: Any, tmp_path: Path) -> None:
    one, other = (model_of(kit, tmp_path, edits) for edits in (FOUR_MOVES, FOUR_MOVES[::-1]))
    untied = ASKS[:-1]  # the last one is equally far from every edit
    assert one.answer(untied) == other.answer(untied)


def test_last_of_two_edits_of_one_prompt_wins(kit: Any, tmp_path: Path) -> None:
    later = city_edit(TOWER, PARIS, BERLIN)
    together = model_of(kit, tmp_path, [MOVE_TOWER, later])
    sequential = model_of(kit, tmp_path, [MOVE_TOWER])
    sequential.change(add=[later])
    for edited in (together, sequential):
        assert edited.answer(ASKS[:1])[0].steps[0].retrieved == (later.id,)
    sequential.change(remove=[later.id])
    assert sequential.answer(ASKS[:1])[0].steps[0].retrieved == (MOVE_TOWER.id,)


def test_equal_scores_are_sorted_from_the_newest_edit_on() -> None:
    memory = WeightedScopeMemory(WordEncoder(), np.ones(256, dtype=np.float32))
    memory.add([("far", "Bees find flowers"), ("old", "Prado is in"), ("gone", "Prado is in"), ("new", "Prado is in")])
    memory.remove(["gone"])
    first, second = memory.search(["Prado is in"] * 2, k=3, hidden=[frozenset(), frozenset({"new"})])
    assert [hit.id for hit in first] == ["new", "old", "far"]
    assert [hit.id for hit in second] == ["old", "far"]


def test_target_is_not_part_of_the_key() -> None:
    long = city_edit(TOWER, PARIS, Entity(label="New York City"))
    keys = [scope_key(edit) for edit in (MOVE_TOWER, long, FREE_FORM, TEXT_ONLY)]
    assert keys == ["Eiffel Tower is located in"] * 2 + ["How do bees find flowers?", TEXT_ONLY.statement]
    assert scope_key(evolve(MOVE_TOWER, cloze=None)) == MOVE_TOWER.question
    weights = np.ones(256, dtype=np.float32)
    first, second = (WeightedScopeMemory(WordEncoder(), weights) for _ in range(2))
    first.add([(MOVE_TOWER.id, scope_key(MOVE_TOWER))])
    second.add([(long.id, scope_key(long))])
    assert np.array_equal(first.vectors, second.vectors)


def test_requests_of_a_batch_equal_single_requests(kit: Any, tmp_path: Path) -> None:
    edited = model_of(kit, tmp_path, [MOVE_TOWER, MOVE_GATE], weight=0.3)
    together = edited.answer(ASKS)
    for ask, reply in zip(ASKS, together, strict=True):
        (alone,) = edited.answer([ask])
        if isinstance(alone, Scored):
            assert reply.logprobs == pytest.approx(alone.logprobs, abs=1e-5)
        else:
            assert reply == alone


@pytest.mark.parametrize(("after", "kept"), [("", ""), ("The answer is:", "Q: Where is it?\nA: Here\n")])
def test_edit_stands_before_the_line_of_the_question(after: str, kept: str) -> None:
    """Worked examples are only kept if they show the marker that the parser needs."""
    ask = QUESTIONS[0]
    prompt = evolve(ask.prompt, text=f"Q: Where is it?\nA: Here\n{ask.prompt.text}", parse=Parse(after=after))
    found = with_edit(evolve(ask, prompt=prompt), "The tower is in Rome")
    assert found.prompt.text == f"{kept}The tower is in Rome.\nQ: {ask.texts[0]} A:"
    assert with_edit(LIKELIHOODS[0], "A fact").prompt == f"A fact.\n{LIKELIHOODS[0].prompt}"
    other = evolve(LIKELIHOODS[0], prompt="", texts=())
    assert with_edit(other, "A fact").prompt == "A fact.\n"


def test_only_edits_in_scope_are_recorded(kit: Any, tmp_path: Path) -> None:
    replies = model_of(kit, tmp_path, [MOVE_TOWER]).answer(QUESTIONS)
    assert [reply.steps[0].retrieved for reply in replies] == [(MOVE_TOWER.id,), (), ()]


def test_unsuitable_checkpoints_are_refused(kit: Any, tmp_path: Path) -> None:
    editor = Serac(kit.config)
    with pytest.raises(BadConfig, match="serac needs trained networks: none found for"):
        editor.check(make_session(tiny_model(), root=tmp_path / "empty"), ())
    folder = str(kit.leave(tmp_path, editor="mend"))
    session = make_session(tiny_model(), root=tmp_path)
    with pytest.raises(BadConfig, match="was trained for mend, not for serac"):
        Serac(evolve(kit.config, checkpoint=folder)).check(session, ())
    kit.leave(tmp_path, place={"encoder": "other", "counterfactual": "other"})
    with pytest.raises(BadConfig, match="trained with another encoder or counterfactual model"):
        Serac(evolve(kit.config, checkpoint=folder)).check(session, ())
