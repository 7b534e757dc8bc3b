"""UnKE on tiny models against the reference implementation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ke_core.plugin import BadConfig, Edit, Score
from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_unke import UnkeConfig, derive
from ke_plugin_unke.editor import Unke
from ke_testing.examples import facts_of
from ke_testing.fakes import make_session
from ke_weights import PUBLISHED_LONG_ANSWERS
from ke_weights.answer_states import answer_states
from ke_weights.optimize import TargetSettings
from ke_weights.plugin import module_map, rewrite
from ke_weights.testing.reference_answers import ANSWER_LIMITS, LONG, LONG_EDITS, SMALL_ANSWERS, ReferenceAnswers
from ke_weights.testing.reference_edits import off
from ke_weights.testing.weights import changes, weights_of

SMALL = UnkeConfig(**SMALL_ANSWERS)
pytestmark = pytest.mark.usefixtures("one_thread")


def made(model: Any, root: Path, config: UnkeConfig = SMALL, edits: Sequence[Edit] = LONG_EDITS) -> dict[str, Tensor]:
    """Return our changes of parameters, as stored."""
    before = weights_of(model)
    with Unke(config, derive).edit(make_session(model, root=root), edits):
        return changes(model, before)


@pytest.mark.parametrize(("family", "dtype", "most"), ANSWER_LIMITS)
def test_updates_equal_the_reference(family: Family, dtype: str, most: float, tmp_path: Path) -> None:
    model = tiny_model(family, dtype=dtype)
    before, plain = weights_of(model), ReferenceAnswers(model)
    expected = plain.train(LONG_EDITS, plain.kept_rows(0, LONG_EDITS))
    assert not changes(model, before)
    ours = made(model, tmp_path)
    assert set(ours) == set(expected)
    for name, change in expected.items():
        base = 0 if dtype == "float64" else before[name]
        assert float((ours[name] - change).norm() / (base + change).norm()) < most


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_states_and_first_gradients_equal_the_reference_in_float32(family: Family, tmp_path: Path) -> None:
    """AdamW's first step is the sign of the gradient, so rounding of small gradients changes whole steps."""
    model = tiny_model(family)
    plain = ReferenceAnswers(model)
    targets = {name: SMALL_ANSWERS[name] for name in ("layer", "steps", "lr", "weight_decay", "clamp")}
    found = answer_states(
        make_session(model, root=tmp_path), module_map(model.module), [rewrite(edit) for edit in LONG_EDITS],
        TargetSettings(**targets, kl=0.0), ending=[model.tokenizer.eos_token_id],
    )  # fmt: skip
    for edit, states in zip(LONG_EDITS, found, strict=True):
        assert off(states.z, torch.stack(plain.answer(edit).z)) < 1e-5
    with first_gradients() as expected:
        plain.train(LONG_EDITS, plain.kept_rows(0, LONG_EDITS))
    with first_gradients() as ours:
        made(model, tmp_path)
    assert ours
    for one, other in zip(ours, expected, strict=True):
        assert off(one, other) < 1e-5


@contextmanager
def first_gradients() -> Iterator[list[Tensor]]:
    """Yield a list that gets the gradient of each parameter in the first step of AdamW."""
    seen: list[Tensor] = []

    def record(optimizer: Any, _args: Any, _options: Any) -> None:
        if isinstance(optimizer, torch.optim.AdamW) and not seen:
            seen.extend(value.grad.clone() for group in optimizer.param_groups for value in group["params"])

    with register_optimizer_step_pre_hook(record):
        yield seen


def test_padding_counts_in_the_profile_paper(tmp_path: Path) -> None:
    model = tiny_model("gpt2", dtype="float64")
    plain = ReferenceAnswers(model)
    assert len({len(model.encode(edit.prompt)) for edit in LONG_EDITS}) > 1
    expected = plain.train(LONG_EDITS, plain.kept_rows(0, LONG_EDITS), padding=True)
    ours = made(model, tmp_path, evolve(SMALL, profile="paper"))
    for name, change in expected.items():
        assert float((ours[name] - change).norm() / change.norm()) < 1e-8


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_no_steps_change_nothing(family: Family, tmp_path: Path) -> None:
    assert not made(tiny_model(family), tmp_path, evolve(SMALL, steps=1, block_steps=0))


def test_states_without_an_offset_have_no_loss(tmp_path: Path) -> None:
    """One evaluation makes no update of the offset, so the wanted outputs are the current ones."""
    session = make_session(tiny_model("llama"), root=tmp_path)
    with Unke(evolve(SMALL, steps=1), derive).edit(session, LONG_EDITS) as edited:
        details: Any = edited.details
    assert details["block"]["loss_before"] < 1e-10
    assert [one["windows"][0]["change"] for one in details["edits"].values()] == [0.0, 0.0]


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_only_the_block_changes_and_its_loss_falls(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family)
    before = weights_of(model)
    with Unke(evolve(SMALL, block_steps=10), derive).edit(make_session(model, root=tmp_path), LONG_EDITS) as edited:
        details: Any = edited.details
        changed = changes(model, before)
    name = module_map(model.module).layers[SMALL_ANSWERS["layer"]].name
    assert set(changed) == {one for one in before if one.startswith(f"{name}.")}
    assert 0 < details["block"]["loss_after"] < details["block"]["loss_before"]
    assert list(details["edits"]) == [edit.id for edit in LONG_EDITS]
    assert details["block"]["kept_rows"] == SMALL_ANSWERS["keep"]


def test_answer_becomes_more_probable(tmp_path: Path) -> None:
    model = tiny_model("llama")
    request = [Score(prompt=LONG.prompt, continuations=(f" {LONG.target}",))]
    before = model.score(request)[0].logprobs[0]
    config = evolve(SMALL, steps=25, clamp=4.0, weight_decay=0.0, block_steps=50)
    with Unke(config, derive).edit(make_session(model, root=tmp_path), [LONG]):
        assert model.score(request)[0].logprobs[0] > before + 1


def test_chat_model_reads_the_question_in_its_chat_format(tmp_path: Path) -> None:
    plain = tiny_model("llama")
    plain.tokenizer.chat_template = (
        "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    chat = type(plain)(id="chat", module=plain.module, tokenizer=plain.tokenizer, chat=True)
    states = {}
    for model in (plain, chat):
        session = make_session(model, root=tmp_path)
        modules, rewrites = module_map(model.module), [rewrite(LONG)]
        settings = TargetSettings(layer=1, steps=2, lr=0.1, kl=0.0, weight_decay=0.0, clamp=1.0)
        (states[model.id],) = answer_states(session, modules, rewrites, settings)
        assert states[model.id].ids == tuple(model.encode(LONG.prompt))
        room = Unke(SMALL, derive)._room(session)
        assert (room < model.context - 1) == model.chat
    assert states["chat"].positions > states[plain.id].positions


def test_end_of_sequence_needs_a_token(tmp_path: Path) -> None:
    model = tiny_model("llama")
    model.tokenizer.eos_token = None
    session = make_session(model, root=tmp_path)
    with pytest.raises(BadConfig, match="no end-of-sequence token"):
        Unke(SMALL, derive).check(session, ())
    assert Unke(evolve(SMALL, eos=False), derive).check(session, ()) == {}


@pytest.mark.parametrize("key", PUBLISHED_LONG_ANSWERS, ids=lambda key: f"{key[0]}-{key[1]}")
def test_published_model_gets_the_published_values(key: Any) -> None:
    found = derive(UnkeConfig(), facts_of(*key))
    assert {name: setting.value for name, setting in found.items()} == PUBLISHED_LONG_ANSWERS[key].values


def test_other_models_get_the_published_depth_and_a_rate_for_their_scale() -> None:
    found = derive(UnkeConfig(clamp=2.0), facts_of("llama", 30, 576, 1536, size=5.0))
    assert [found[name].value for name in ("layer", "steps", "lr", "weight_decay", "clamp")] == [7, 25, 1.0, 1e-3, 2.0]
