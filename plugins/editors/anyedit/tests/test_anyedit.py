"""AnyEdit on tiny models against the reference implementation, and its windows."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_plugin_anyedit import PUBLISHED, AnyEditConfig, derive
from ke_plugin_anyedit.editor import AnyEdit
from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_unke import UnkeConfig
from ke_plugin_unke import derive as derive_unke
from ke_plugin_unke.editor import Unke
from ke_testing.examples import facts_of
from ke_testing.fakes import make_session
from ke_weights.testing.reference_answers import ANSWER_LIMITS, LONG, LONG_EDITS, SMALL_ANSWERS, ReferenceAnswers
from ke_weights.testing.weights import changes, weights_of

WINDOW = 5
SMALL = AnyEditConfig(**SMALL_ANSWERS, window=WINDOW, stop_loss=0.0)
pytestmark = pytest.mark.usefixtures("one_thread")


def made(model: Any, root: Path, config: AnyEditConfig = SMALL) -> tuple[dict[str, Tensor], Any]:
    """Return our changes of parameters, as stored, and the details."""
    before = weights_of(model)
    with AnyEdit(config, derive).edit(make_session(model, root=root), LONG_EDITS) as edited:
        return changes(model, before), edited.details


@pytest.mark.parametrize(("family", "dtype", "most"), ANSWER_LIMITS)
def test_updates_equal_the_reference(family: Family, dtype: str, most: float, tmp_path: Path) -> None:
    model = tiny_model(family, dtype=dtype)
    before, plain = weights_of(model), ReferenceAnswers(model, WINDOW)
    expected = plain.train(LONG_EDITS, plain.kept_rows(0, LONG_EDITS))
    ours, _details = made(model, tmp_path)
    assert set(ours) == set(expected)
    for name, change in expected.items():
        base = 0 if dtype == "float64" else before[name]
        assert float((ours[name] - change).norm() / (base + change).norm()) < most


@pytest.mark.parametrize("window", [1, 4, 7])
def test_each_window_has_a_state(window: int, tmp_path: Path) -> None:
    model = tiny_model("llama")
    plain = ReferenceAnswers(model)
    config = evolve(SMALL, window=window, steps=2, block_steps=0)
    _changed, details = made(model, tmp_path, config)
    for edit in LONG_EDITS:
        assert len(details["edits"][edit.id]["windows"]) == ceil(len(plain.tokens(edit)[1]) / window)


def test_a_window_of_the_whole_answer_is_unke(tmp_path: Path) -> None:
    model = tiny_model("llama")
    before = weights_of(model)
    ours, details = made(model, tmp_path, evolve(SMALL, window=1000))
    with Unke(UnkeConfig(**SMALL_ANSWERS), derive_unke).edit(make_session(model, root=tmp_path), LONG_EDITS) as edited:
        unke = changes(model, before)
        assert details["edits"] == edited.details["edits"]
    assert set(ours) == set(unke)
    assert all(torch.equal(ours[name], change) for name, change in unke.items())


def test_later_states_do_not_change_the_logits_of_earlier_windows() -> None:
    plain = ReferenceAnswers(tiny_model("llama", dtype="float64"), WINDOW)
    answer, (question, tokens) = plain.answer(LONG), plain.tokens(LONG)
    states = dict(zip(answer.positions, answer.z, strict=True))
    whole = plain.logits(question + tokens, states)
    for count, second in enumerate(answer.positions[1:], start=1):
        some = plain.logits(question + tokens, dict(list(states.items())[:count]))
        assert torch.equal(some[:second], whole[:second])
        assert not torch.equal(some[second:], whole[second:])


def test_a_state_stops_at_the_stop_loss(tmp_path: Path) -> None:
    _changed, details = made(tiny_model("llama"), tmp_path, evolve(SMALL, stop_loss=1e9))
    assert {window["steps"] for one in details["edits"].values() for window in one["windows"]} == {0}


@pytest.mark.parametrize("key", PUBLISHED, ids=lambda key: f"{key[0]}-{key[1]}")
def test_published_model_gets_the_published_values(key: Any) -> None:
    found = derive(AnyEditConfig(), facts_of(*key))
    assert {name: setting.value for name, setting in found.items()} == PUBLISHED[key].values


def test_other_models_get_the_window_of_llama() -> None:
    found = derive(AnyEditConfig(), facts_of("llama", 30, 576, 1536))
    assert (found["window"].value, found["layer"].value) == (40, 7)
    assert derive(AnyEditConfig(window=9), facts_of("llama", 30, 576, 1536))["window"].value == 9
