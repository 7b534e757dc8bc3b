"""Training on tiny models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attrs import evolve

from ke_core.plugin import EditFailed, Score
from ke_plugin_hf.testing import tiny_model
from ke_plugin_malmen import MalmenConfig, RLEditConfig, settings
from ke_plugin_malmen import objective as objective_module
from ke_plugin_malmen.editor import Malmen
from ke_testing.examples import MOVE_TOWER, facts_of
from ke_testing.fakes import make_session


def test_training_lowers_the_loss_and_edits_with_its_network(kit: Any, tmp_path: Path) -> None:
    model = tiny_model("llama")
    training = kit.begin("malmen", model, tmp_path)
    steps = [training.advance() for _ in range(30)]
    first, last = (np.mean([step.numbers["edit"] for step in part]) for part in (steps[:8], steps[-8:]))
    assert last < first - 0.1
    kit.leave("malmen", model, tmp_path, training.tensors())
    ask = [Score(prompt="Eiffel Tower is located in", continuations=(" Rome",))]
    before = model.score(ask)[0].logprobs[0]
    with Malmen(MalmenConfig()).edit(make_session(model, root=tmp_path), [MOVE_TOWER]):
        assert model.score(ask)[0].logprobs[0] > before + 0.1


@pytest.mark.parametrize("profile", ["malmen", "rledit", "rledit-paper"])
def test_resumed_training_is_bit_identical(profile: str, kit: Any, tmp_path: Path) -> None:
    """In the middle of a sequence of four batches."""
    name = profile.removesuffix("-paper")
    config = evolve(kit.configs[name], profile="paper" if profile.endswith("paper") else "default")
    kit.expect_resumed(name, tmp_path, config, saved_after=2)


def test_sequence_begins_on_the_original_model(kit: Any, tmp_path: Path) -> None:
    training = kit.begin("rledit", tiny_model("llama"), tmp_path)
    norms = []
    for _ in range(5):
        training.advance()
        norms.append(sum(float(s.norm()) for s in training.shifts.values()))
    assert norms[0] < norms[3]
    assert norms[4] < norms[3]


def test_paper_profile_makes_one_optimizer_step_per_sequence(kit: Any, tmp_path: Path) -> None:
    config = evolve(kit.configs["rledit"], profile="paper")
    training = kit.begin("rledit", tiny_model("llama"), tmp_path, config)
    before = [parameter.detach().clone() for parameter in training.network.parameters()]
    for _ in range(3):
        training.advance()
    assert all(torch.equal(a, b) for a, b in zip(before, training.network.parameters(), strict=True))
    training.advance()
    assert not all(torch.equal(a, b) for a, b in zip(before, training.network.parameters(), strict=True))


def test_batch_that_is_not_finite_leaves_the_accumulated_gradients(kit: Any, tmp_path: Path) -> None:
    """Its gradients are infinite in one parameter. The sequence still ends with an optimizer step."""
    config, model = evolve(kit.configs["rledit"], profile="paper"), tiny_model("llama")
    training = kit.begin("rledit", model, tmp_path, config)
    parameters = dict(training.network.named_parameters())
    training.advance()
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    summed = {name: parameter.grad.clone() for name, parameter in parameters.items() if parameter.grad is not None}
    handle = next(iter(parameters.values())).register_hook(lambda gradient: gradient * torch.inf)
    assert training.advance().numbers["skipped"] == 1
    handle.remove()
    assert summed
    for name, gradient in summed.items():
        found = parameters[name].grad
        assert found is not None
        assert torch.equal(found, gradient)
    training.advance()
    with model.module.get_submodule("model.norm").register_forward_hook(
        lambda _module, _args, states: states * torch.inf
    ):
        assert training.advance().numbers["skipped"] == 1
    assert not all(torch.equal(parameters[name], old) for name, old in before.items())


def test_training_does_not_change_the_model(kit: Any, tmp_path: Path) -> None:
    model = tiny_model("llama")
    model.module.requires_grad_(requires_grad=True)
    before = dict(model.state())
    training = kit.begin("rledit", model, tmp_path)
    for _ in range(3):
        training.advance()
    assert dict(model.state()) == before


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_shifts_are_not_rounded_to_half_precision(dtype: str, kit: Any, tmp_path: Path) -> None:
    training = kit.begin("rledit", tiny_model("llama", dtype=dtype), tmp_path)
    assert training.advance().numbers["skipped"] == 0
    parts = [*training.shifts.values(), *training.network.parameters()]
    assert all(part.dtype == torch.float32 for part in parts)


def test_overflowing_batch_is_skipped(kit: Any, tmp_path: Path) -> None:
    """An infinite value would make the normalizers' means NaN permanently."""
    model = tiny_model("llama")
    training = kit.begin("rledit", model, tmp_path)
    training.advance()
    shifts = dict(training.shifts)
    norm = model.module.get_submodule("model.norm")
    with norm.register_forward_hook(lambda _module, _args, states: states * torch.inf):
        assert training.advance().numbers["skipped"] == 1
    projection = model.module.get_submodule(next(reversed(training.network.shapes)))
    with projection.register_forward_pre_hook(lambda _module, args: (args[0] * torch.inf,)):
        assert training.advance().numbers["skipped"] == 1
    assert all(torch.equal(training.shifts[name], shift) for name, shift in shifts.items())
    assert training.advance().numbers["skipped"] == 0


def test_training_stops_after_many_steps_that_are_not_finite(
    kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model("llama")
    training = kit.begin("malmen", model, tmp_path)
    monkeypatch.setattr("ke_weights.hypernetwork.training.SKIPS", 2)
    norm = model.module.get_submodule("model.norm")
    with norm.register_forward_hook(lambda _module, _args, states: states * torch.inf):
        training.advance()
        with pytest.raises(EditFailed, match="malmen's network were not finite in 2 consecutive steps up to step 2"):
            training.advance()


def test_finite_loss_with_gradients_that_are_not_finite_is_a_skipped_step(
    kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradients of the shift overflow, so the network gets none."""
    compute = objective_module._model_gradients

    def overflow(module: Any, batches: Any, before: Any, after: Any, weights: Any) -> Any:
        losses = compute(module, batches, before, after, weights)
        next(iter(after.values())).grad.mul_(torch.inf)
        return losses

    training = kit.begin("malmen", tiny_model("llama"), tmp_path)
    loss = training.advance().loss
    monkeypatch.setattr(objective_module, "_model_gradients", overflow)
    monkeypatch.setattr("ke_weights.hypernetwork.training.SKIPS", 2)
    step = training.advance()
    assert (step.numbers["skipped"], step.loss) == (1, loss)
    with pytest.raises(EditFailed, match="not finite in 2 consecutive steps up to step 3"):
        training.advance()


def test_published_models_get_the_published_linear_maps() -> None:
    found = settings("malmen", MalmenConfig(profile="paper"), facts_of("gptj", 28, 4096, 16384))
    assert found["modules"].value == ("down:22-27",)
    names: tuple[str, ...] = ("rank", "layers", "batch", "lr", "step_init", "positive_step", "ignore_constant")
    assert {name: found[name].value for name in names} == {
        "rank": 1920, "layers": 2, "batch": 512, "lr": 1e-5, "step_init": 1e-6, "positive_step": False,
        "ignore_constant": False,
    }  # fmt: skip
    found = settings("rledit", RLEditConfig(profile="paper"), facts_of("llama", 32, 4096, 14336))
    assert found["modules"].value == ("gate:22-30", "up:22-30")
    names = ("rank", "layers", "batch", "length", "window", "discount", "locality_weight", "shift_weight")
    assert [found[name].value for name in names] == [1024, 4, 20, 400, 10, 0.95, 0.6, 1e-4]


def test_other_models_get_linear_maps_at_the_published_depth() -> None:
    facts = facts_of("llama", 30, 576, 1536)
    found = settings("malmen", MalmenConfig(rank=7), facts)
    assert found["modules"].value == ("down:24-29",)
    assert (found["rank"].value, found["rank"].reason) == (7, "given")
    assert settings("rledit", RLEditConfig(), facts)["modules"].value == ("up:21-28",)
    assert settings("rledit", RLEditConfig(), facts)["rank"].value == 144
    assert all(setting.reason for setting in found.values())


@pytest.mark.parametrize("name", ["malmen", "rledit"])
@pytest.mark.parametrize(("profile", "ignored"), [("default", True), ("paper", False)])
def test_features_without_variance_are_ignored_except_in_the_paper_profile(
    name: str, profile: str, kit: Any, tmp_path: Path, *, ignored: bool
) -> None:
    training = kit.begin(name, tiny_model("llama"), tmp_path, evolve(kit.configs[name], profile=profile))
    assert training.recipe["ignore_constant"] is ignored
    parts = [training.network.network(one) for one in training.network.shapes]
    assert all(part.norm_x.ignore_constant is part.norm_g.ignore_constant is ignored for part in parts)
