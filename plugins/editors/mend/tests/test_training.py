"""Training on tiny models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ke_core.plugin import BadData, EditFailed
from ke_plugin_hf.testing import tiny_model
from ke_plugin_mend import MendConfig, settings
from ke_plugin_mend.profiles import resolve_profile
from ke_plugin_mend.training import MendTrainer
from ke_testing.examples import MOVE_TOWER, TEXT_ONLY
from ke_testing.fakes import make_session
from ke_weights.hypernetwork import setting_values, usable_examples
from ke_weights.hypernetwork import training as training_module
from ke_weights.trainers import TrainingExample


@pytest.mark.integration
def test_training_lowers_the_loss(kit: Any, tmp_path: Path) -> None:
    training = kit.begin("mend", tiny_model("llama"), tmp_path)
    steps = [training.advance() for _ in range(60)]
    first, last = (np.mean([step.numbers["edit"] for step in part]) for part in (steps[:10], steps[-10:]))
    assert last < first - 0.5
    assert np.mean([s.loss for s in steps[-10:]]) < np.mean([s.loss for s in steps[:10]])
    assert training.network.steps.min() < 0, "the sign of descent is learned"


def test_resumed_training_is_bit_identical(kit: Any, tmp_path: Path) -> None:
    kit.expect_resumed("mend", tmp_path, saved_after=3)


def test_training_does_not_change_the_model(kit: Any, tmp_path: Path) -> None:
    model = tiny_model("llama")
    model.module.requires_grad_(requires_grad=True)
    before = dict(model.state())
    kit.begin("mend", model, tmp_path).advance()
    assert dict(model.state()) == before


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_supported(dtype: str, kit: Any, tmp_path: Path) -> None:
    training = kit.begin("mend", tiny_model("llama", dtype=dtype), tmp_path)
    step = training.advance()
    assert step.numbers["skipped"] == 0
    assert all(parameter.dtype == torch.float32 for parameter in training.network.parameters())


def test_non_finite_gradients_are_skipped_up_to_a_limit(
    kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = kit.begin("mend", tiny_model("gpt2"), tmp_path)
    training.advance()
    before = [parameter.detach().clone() for parameter in training.network.parameters()]
    monkeypatch.setattr(training_module, "finite", lambda _tensors: False)
    assert training.advance().numbers["skipped"] == 1
    assert all(torch.equal(a, b) for a, b in zip(before, training.network.parameters(), strict=True))
    monkeypatch.setattr(training_module, "SKIPS", 2)
    with pytest.raises(EditFailed, match="not finite in 2 consecutive steps up to step 3"):
        training.advance()


def test_resumed_training_repeats_the_loss_and_counts_the_skips(
    kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = kit.begin("mend", tiny_model("gpt2"), tmp_path)
    loss = training.advance().loss
    monkeypatch.setattr(training_module, "finite", lambda _tensors: False)
    monkeypatch.setattr(training_module, "SKIPS", 3)
    for _ in range(2):
        training = kit.begin("mend", tiny_model("gpt2"), tmp_path, saved=training.tensors())
        assert training.advance().loss == loss
    with pytest.raises(EditFailed, match="not finite in 3 consecutive steps"):
        kit.begin("mend", tiny_model("gpt2"), tmp_path, saved=training.tensors()).advance()


def test_overflowing_batch_is_skipped(kit: Any, tmp_path: Path) -> None:
    """An infinite value would make the normalizers' means NaN permanently."""
    model = tiny_model("llama")
    training = kit.begin("mend", model, tmp_path)
    training.advance()
    network = training.network.network(next(iter(training.network.shapes)))
    norm = model.module.get_submodule("model.norm")
    with norm.register_forward_hook(lambda _module, _args, states: states * torch.inf):
        assert training.advance().numbers["skipped"] == 1
    projection = model.module.get_submodule(next(reversed(training.network.shapes)))
    with projection.register_forward_pre_hook(lambda _module, args: (args[0] * torch.inf,)):
        assert training.advance().numbers["skipped"] == 1
    assert bool(network.norm_x.mean.isfinite().all())
    assert bool(network.norm_g.mean.isfinite().all())
    assert training.advance().numbers["skipped"] == 0


def test_samples_depend_only_on_seed_and_number(kit: Any, tmp_path: Path) -> None:
    model = tiny_model("llama")
    sampler, other = (kit.begin("mend", model, tmp_path).sampler for _ in range(2))
    other.batch(0, 2, model.device)
    for start in (6, 0, 4):
        one, two = sampler.batch(start, 2, model.device), other.batch(start, 2, model.device)
        assert torch.equal(one.outer.ids, two.outer.ids)
        assert torch.equal(one.ids, two.ids)


def test_every_epoch_has_every_example_once(kit: Any, tmp_path: Path) -> None:
    sampler = kit.begin("mend", tiny_model("llama"), tmp_path).sampler
    times = [[sampler._example(number).id for number in range(4 * time, 4 * time + 4)] for time in range(3)]
    assert all(sorted(time) == sorted(times[0]) for time in times)
    assert len({tuple(time) for time in times}) > 1


def test_default_profile_also_tests_the_prompt(kit: Any) -> None:
    (small, *_), (published, *_) = (usable_examples(kit.examples, kind) for kind in ("all", "paraphrases"))
    assert small.wordings == (small.prompt, *published.wordings)
    (bare,) = usable_examples([TrainingExample(edit=MOVE_TOWER)], "paraphrases")
    assert bare.wordings == (bare.prompt,)


def test_examples_without_a_prompt_are_skipped() -> None:
    bare = TrainingExample(edit=TEXT_ONLY)
    assert len(usable_examples([bare, TrainingExample(edit=MOVE_TOWER)], "all")) == 1
    with pytest.raises(BadData, match="none of 1 examples has a prompt and a target"):
        usable_examples([bare], "all")


def test_too_long_examples_are_refused_at_the_start(tmp_path: Path, kit: Any) -> None:
    session = make_session(tiny_model("llama"), root=tmp_path)
    long = TrainingExample(edit=MOVE_TOWER, paraphrases=("so " * 2000,))
    why = rf"2 of 6 training examples have more than 1024 tokens.*: the first, {MOVE_TOWER.id} \('.*'\), has \d+"
    with pytest.raises(BadData, match=why):
        MendTrainer(kit.configs["mend"]).start(session, [*kit.examples, long, long], None)


def test_paper_profile_has_the_published_numbers_and_steps(kit: Any, tmp_path: Path) -> None:
    found = setting_values(resolve_profile(MendConfig(profile="paper"), 576))
    assert found == {
        "blocks": 3, "rank": 1920, "lr": 1e-6, "step_lr": 1e-4, "step_init": 1e-4, "both_adams": True,
        "scaled_v": False, "ignore_constant": False, "batch": 10, "steps": 10_000, "clip": 100.0, "edit_weight": 0.1,
        "locality_weight": 1.0, "wordings": "paraphrases",
    }  # fmt: skip
    training = kit.begin("mend", tiny_model("gpt2"), tmp_path, MendConfig(profile="paper", rank=4, batch=1))
    assert "steps" in training.optimizers["network"].parameters
    part = training.network.network(next(iter(training.network.shapes)))
    assert not part.norm_x.ignore_constant
    assert not part.norm_g.ignore_constant
    assert not training.finished()
    training.step = 10_000
    assert training.finished()


def test_settings_have_reasons_and_given_values_win() -> None:
    class Facts:
        class shape:  # noqa: N801  used as a field
            hidden = 576

    found = settings(MendConfig(rank=7), Facts())  # type: ignore[arg-type]
    assert found["rank"].value == 7
    assert found["rank"].reason == "given"
    assert settings(MendConfig(), Facts())["rank"].value == 144  # type: ignore[arg-type]
    assert all(setting.reason for setting in found.values())
