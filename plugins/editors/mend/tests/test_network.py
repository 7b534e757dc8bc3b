"""The network against its equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ke_core.plugin import BadConfig
from ke_plugin_hf.testing import tiny_model
from ke_plugin_mend.branches import targets
from ke_plugin_mend.network import MendNetwork
from ke_weights.hypernetwork import (
    GradientFactors,
    LowRankResidual,
    Normalizer,
    ShapeNetwork,
    gradient_factors,
    ignores_constant,
    shapes_of,
)
from ke_weights.plugin import find_parts, frozen_module, map_orientation, scored_tokens


def rows(model: Any) -> Any:
    texts = [("Eiffel Tower is located in", " Rome of old"), ("Brandenburg Gate is", " Madrid")]
    pairs = [(model.encode(a), model.tokenizer(b, add_special_tokens=False)["input_ids"]) for a, b in texts]
    return pairs, scored_tokens(pairs, model.device)


@pytest.mark.parametrize("family", ["gpt2", "gptj", "gptneox", "llama", "qwen2"])
def test_factors_reproduce_the_gradients_of_the_weights(family: Any) -> None:
    model = tiny_model(family, dtype="float64")
    module = model.module
    names = targets(find_parts(module), 3)
    pairs, batch = rows(model)
    with frozen_module(module), torch.enable_grad():
        found, losses, _logits = gradient_factors(module, names, batch)
    module.requires_grad_(requires_grad=True)
    total = 0
    for at, (prompt, target) in enumerate(pairs):  # one row at a time, without padding
        logits = module(input_ids=torch.tensor([[*prompt, *target[:-1]]])).logits[0, len(prompt) - 1 :]
        loss = -logits.log_softmax(-1)[range(len(target)), target].mean()
        assert float(loss.detach()) == pytest.approx(float(losses[at]), rel=1e-6)
        total = total + loss
    total.backward()
    assert len(names) == (9 if family in ("llama", "qwen2") else 6)
    for name in names:
        part = module.get_submodule(name)
        gradient = map_orientation(part, part.weight.grad)
        mine = found[name].g.T @ found[name].x
        assert mine.shape == gradient.shape
        assert float((mine - gradient).norm() / gradient.norm()) < 1e-6


def test_tokens_without_a_gradient_are_skipped() -> None:
    model = tiny_model("llama")
    names = targets(find_parts(model.module), 1)
    pairs, batch = rows(model)
    with frozen_module(model.module), torch.enable_grad():
        found, _losses, _logits = gradient_factors(model.module, names, batch)
    assert {len(found[name].x) for name in names} == {sum(len(target) for _prompt, target in pairs)}


def network(rank: int = 4) -> ShapeNetwork:
    rng = torch.Generator().manual_seed(0)
    made = ShapeNetwork((5, 3), [LowRankResidual(8, rank, 2, rng) for _ in range(2)])
    made.norm_x.update(torch.randn(20, 5) * 3 + 1)
    made.norm_g.update(torch.randn(20, 3) * 1e-3)
    return made


def test_untrained_network_is_the_identity_on_normalized_input() -> None:
    made = network()
    x, g = torch.randn(7, 5), torch.randn(7, 3) * 1e-3
    new_x, new_g = made(x, g, 1)
    assert torch.equal(new_x, made.norm_x(x))
    assert torch.equal(new_g, made.norm_g(g))


def test_u_has_a_gradient_at_zero_unlike_with_a_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    def gradient() -> float:
        layer = LowRankResidual(6, 4, 1, torch.Generator().manual_seed(0))
        layer(torch.randn(3, 6, generator=torch.Generator().manual_seed(1)), 0).square().sum().backward()
        assert layer.u.grad is not None
        return float(layer.u.grad.norm())

    assert gradient() > 0.1
    monkeypatch.setattr(torch.Tensor, "clamp", lambda self, min: torch.relu(self))  # noqa: A006  torch's own name
    assert gradient() == 0


@pytest.mark.parametrize(("scaled", "size"), [(True, 0.05), (False, 1.0)])
def test_v_starts_with_the_size_of_its_profile(*, scaled: bool, size: float) -> None:
    layer = LowRankResidual(400, 50, 1, torch.Generator().manual_seed(0), scaled=scaled)
    assert float(layer.v.detach().std()) == pytest.approx(size, rel=0.02)


@pytest.mark.parametrize("sizes", [(200,), (1, 1, 1), (1, 0, 30, 7), (90, 110)])
def test_normalizer_computes_mean_and_standard_deviation(sizes: tuple[int, ...]) -> None:
    draw = np.random.default_rng(0)
    stream = [draw.normal(5, 3, size=(size, 4)).astype(np.float32) for size in sizes]
    made = Normalizer(4)
    for part in stream:
        made.update(torch.from_numpy(part))
    whole = np.concatenate(stream).astype(np.float64)
    np.testing.assert_allclose(made.mean, whole.mean(0), rtol=1e-6)
    np.testing.assert_allclose(made.std, whole.std(0, ddof=1), rtol=1e-6)


def test_one_token_gives_no_nan() -> None:
    made = Normalizer(4)
    made.update(torch.full((1, 4), 3.0))
    assert torch.equal(made(torch.full((1, 4), 3.0)), torch.zeros(1, 4))


def trained_normalizer(*, ignore_constant: bool) -> tuple[Normalizer, torch.Tensor]:
    """Return a normalizer and its training vectors: a feature that varies, one that is 0, and one that is 0.1."""
    vectors = torch.stack([torch.arange(60.0), torch.zeros(60), torch.full((60,), 0.1)], dim=1)
    made = Normalizer(3, ignore_constant=ignore_constant)
    for start in range(0, 60, 7):  # the mean of 0.1 is rounded differently in every batch
        made.update(vectors[start : start + 7])
    return made, vectors


def test_features_without_variance_in_training_are_normalized_to_zero() -> None:
    """A ReLU neuron that was 0 in all training examples, and is active in an edit."""
    made, vectors = trained_normalizer(ignore_constant=True)
    found = made(torch.tensor([[3.0, 0.5, 0.7], [0.0, -2.0, float("inf")]]))
    expected = (torch.tensor([3.0, 0.0]) - vectors[:, 0].mean()) / vectors[:, 0].std()
    torch.testing.assert_close(found[:, 0], expected)
    assert torch.equal(found[:, 1:], torch.zeros(2, 2))


def test_released_normalizer_divides_them_by_epsilon() -> None:
    made, _vectors = trained_normalizer(ignore_constant=False)
    assert float(made(torch.tensor([[3.0, 0.5, 0.7]]))[0, 1]) == pytest.approx(5e6)


@pytest.mark.parametrize(("recipe", "ignored"), [({"ignore_constant": True}, True), ({"ignore_constant": False}, False),
                                                  ({}, True), ({"scaled_v": False}, False)])  # fmt: skip
def test_recipe_states_whether_they_are_ignored_or_is_older(recipe: dict[str, bool], *, ignored: bool) -> None:
    assert ignores_constant({"scaled_v": True} | recipe) is ignored


def test_matrices_of_one_shape_share_a_network() -> None:
    made = MendNetwork({"a": (5, 3), "b": (3, 5), "c": (5, 3)}, rank=2, step=1e-4)
    assert made.network("a") is made.network("c") is not made.network("b")
    found = GradientFactors(torch.randn(4, 5), torch.randn(4, 3), torch.zeros(4, dtype=torch.long))
    made.observe({"a": found})
    with torch.no_grad():
        for layer in made.network("a").layers:
            layer.shift[1] = 0.5  # type: ignore[index,operator]
        made.steps[2] = -1.0
    x, g = made.transform("a", found)
    other_x, other_g = made.transform("c", found)
    assert not torch.equal(x, other_x)
    assert torch.allclose(g, 1e-4 * made.network("a").norm_g(found.g))
    assert torch.allclose(other_g, -(made.network("a").norm_g(found.g) + 1.0))


def test_square_conv1d_is_recognized_by_type() -> None:
    from transformers.pytorch_utils import Conv1D

    parts = torch.nn.ModuleDict({"conv": Conv1D(7, 4), "linear": torch.nn.Linear(4, 7)})
    assert shapes_of(parts, ["conv", "linear"], "mend") == {"conv": (4, 7), "linear": (4, 7)}


@pytest.mark.parametrize("codes", [torch.zeros(14, 1, dtype=torch.uint8), torch.ones(7, 4).to(torch.float8_e4m3fn)])
def test_quantized_matrix_is_refused(codes: torch.Tensor) -> None:
    parts = torch.nn.ModuleDict({"linear": torch.nn.Linear(4, 7)})
    parts["linear"].weight = torch.nn.Parameter(codes, requires_grad=False)
    with pytest.raises(BadConfig, match=rf"linear\.weight is {codes.dtype}"):
        shapes_of(parts, ["linear"], "mend")
