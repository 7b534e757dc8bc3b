"""The routing score and the choice of a memory, against the equations written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from ke_core.plugin import Generate, Score
from ke_plugin_hf.decoding.runner import LocalRunner
from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_wise.routing import ACTIVATIONS, MAIN, routing_score, with_side_memories
from ke_weights.plugin import LayerCall, find_parts, prompt_lengths

PROMPTS = ("Eiffel Tower is located in", "Who is", "The capital of France is Paris. The capital of Peru is")
LONG_TEXT = " ".join(["The capital of France is Paris."] * 6)


def noise(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32) * scale


def state(memories: list[Tensor], thresholds: list[float], *, activation: str = "", released: bool = False) -> Any:
    return {f"memory {at}": memory for at, memory in enumerate(memories)} | {
        "thresholds": torch.tensor(thresholds, dtype=torch.float32),
        "activation": torch.tensor(ACTIVATIONS.index(activation)),
        "released": torch.tensor(int(released)),
    }


def layer_call(inputs: Tensor, weight: Tensor, prompts: list[int], kept: Tensor | None = None) -> LayerCall:
    """Return a call of the layer ``weight`` with rows padded on the right after their prompts."""
    prompt = torch.arange(inputs.shape[1]) < torch.tensor(prompts)[:, None]
    return LayerCall(
        inputs=inputs, output=inputs @ weight.T, padding=~prompt, prompt=prompt, answer=torch.zeros_like(prompt),
        last_prompt=torch.tensor(prompts) - 1, kept=kept,
    )  # fmt: skip


@pytest.mark.parametrize(("activation", "act"), [("", lambda x: x), ("silu", silu), ("gelu", gelu)])
def test_score_is_the_mean_norm_over_the_prompt(activation: str, act: Any) -> None:
    weight, side, inputs = noise(5, 7), noise(5, 7, seed=1), noise(2, 4, 7, seed=2)
    call = layer_call(inputs, weight, [4, 3])
    found = routing_score(call.output, inputs @ (side - weight).T, call.prompt, activation)
    for row, length in enumerate((4, 3)):
        norms = [
            float(sum((act(weight @ inputs[row, t]) - act(side @ inputs[row, t])) ** 2) ** 0.5) for t in range(length)
        ]
        assert float(found[row]) == pytest.approx(sum(norms) / length, rel=1e-5)


def test_equal_memories_have_the_score_zero_and_the_main_output() -> None:
    weight, inputs = noise(5, 7), noise(2, 4, 7, seed=2)
    call = layer_call(inputs, weight, [4, 3])
    output, chosen = with_side_memories(call, state([torch.zeros(5, 7)], [0.0]))
    assert torch.equal(output, call.output)
    assert chosen.tolist() == [MAIN, MAIN]


def test_the_largest_score_that_reaches_its_threshold_wins() -> None:
    """Thresholds decide for each memory separately: a memory below its own does not hide another one."""
    weight, inputs = noise(5, 7), noise(3, 4, 7, seed=2)
    call = layer_call(inputs, weight, [4, 3, 2])
    small, middle, large = (noise(5, 7, seed=3) * scale for scale in (0.5, 1.0, 2.0))
    rows, scores = range(3), routing_score(call.output, inputs @ small.T, call.prompt, "")
    low, high = float(scores.min()) * 0.9, float(scores.max()) * 100
    for thresholds, expected in (([low] * 3, 2), ([low, low, high], 1), ([low, high, high], 0), ([high] * 3, MAIN)):
        output, chosen = with_side_memories(call, state([small, middle, large], thresholds))
        assert chosen.tolist() == [expected] * 3
        memory = (small, middle, large)[expected] if expected != MAIN else torch.zeros(5, 7)
        for row in rows:
            torch.testing.assert_close(output[row], inputs[row] @ (weight + memory).T, rtol=1e-5, atol=1e-5)
    half = float(scores.sort().values[1])
    assert with_side_memories(call, state([small], [half]))[1].tolist() == [0 if s >= half else MAIN for s in scores]


def test_a_decision_is_kept_for_later_tokens() -> None:
    weight, memories = noise(5, 7), [noise(5, 7, seed=1), noise(5, 7, seed=2)]
    inputs = noise(4, 1, 7, seed=3)
    kept = torch.tensor([1, MAIN, 0, 1])
    call = layer_call(inputs, weight, [1, 1, 1, 1], kept)
    output = with_side_memories(call, state(memories, [1e9, 1e9]))
    assert isinstance(output, Tensor)
    assert torch.equal(output[1], call.output[1])
    for row, memory in ((0, memories[1]), (2, memories[0]), (3, memories[1])):
        torch.testing.assert_close(output[row], inputs[row] @ (weight + memory).T, rtol=1e-5, atol=1e-5)


def test_released_routing_decides_in_every_call_and_by_the_largest_norm_of_long_rows() -> None:
    weight, memory, inputs = noise(5, 7), noise(5, 7, seed=1), noise(1, 101, 7, seed=2)
    norms = torch.linalg.vector_norm(inputs[0] @ memory.T, dim=-1)
    between = float(norms.mean() + norms.max()) / 2
    long, short = layer_call(inputs, weight, [101]), layer_call(inputs[:, :100], weight, [100])
    released = state([memory], [between], released=True)
    assert not torch.equal(with_side_memories(long, released), long.output)
    assert torch.equal(with_side_memories(short, released), short.output)
    assert torch.equal(with_side_memories(long, state([memory], [between]))[0], long.output)


def test_released_side_memories_have_no_bias() -> None:
    weight, memory, inputs, bias = noise(5, 7), noise(5, 7, seed=1), noise(2, 3, 7, seed=2), noise(5, seed=3)
    plain = layer_call(inputs, weight, [3, 3])
    call = LayerCall(
        inputs=inputs, output=plain.output + bias, padding=plain.padding, prompt=plain.prompt, answer=plain.answer,
        last_prompt=plain.last_prompt,
    )  # fmt: skip
    output = with_side_memories(call, state([memory], [0.0], activation="silu", released=True) | {"bias": bias})
    torch.testing.assert_close(output, inputs @ (weight + memory).T, rtol=1e-5, atol=1e-5)
    score = routing_score(call.output, inputs @ memory.T - bias, call.prompt, "silu")
    wanted = (silu(inputs @ weight.T + bias) - silu(inputs @ (weight + memory).T)).norm(dim=-1).mean(1)
    torch.testing.assert_close(score, wanted, rtol=1e-5, atol=1e-5)


def adapted(model: Any, threshold: float, *, seed: int = 5) -> Any:
    layer = find_parts(model.module).layers[2]
    memory = noise(*layer.matrix.shape, seed=seed, scale=0.3)
    return model.adapt(layer.projection_name, with_side_memories, state([memory], [threshold]))


def scores_of(model: Any) -> list[float]:
    """Return the routing score of each prompt, computed from the layer's inputs."""
    layer, found = find_parts(model.module).layers[2], []
    memory = noise(*layer.matrix.shape, seed=5, scale=0.3)
    handle = layer.projection.register_forward_hook(
        lambda _module, args, _output: found.append(float((args[0][0] @ memory.T).norm(dim=-1).mean()))
    )
    for prompt in PROMPTS:
        model.module(input_ids=torch.tensor([model.encode(prompt)]))
    handle.remove()
    return found


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_routing_does_not_depend_on_the_batch_and_other_rows_are_bit_identical(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalRunner, "in_parts", lambda *_given: False)  # as with an adaptor: the same passes
    model, alone, base = tiny_model(family), tiny_model(family), tiny_model(family)
    ordered = sorted(scores_of(base))
    threshold = (ordered[0] + ordered[1]) / 2
    asked = [Generate(prompt=prompt, max_tokens=6) for prompt in PROMPTS]
    scored = [Score(prompt=prompt, continuations=(" Rome", " the city of Paris")) for prompt in PROMPTS]
    unedited, unscored = base.generate(asked), base.score(scored)
    with adapted(model, threshold), adapted(alone, threshold):
        together, single = model.generate(asked), [alone.generate([one])[0] for one in asked]
        assert [one.text for one in together] == [one.text for one in single]
        for at, (value, found) in enumerate(zip(scores_of(base), model.score(scored), strict=True)):
            same = [alone.score([scored[at]])[0].logprobs, base.score([scored[at]])[0].logprobs]
            assert found.logprobs == pytest.approx(same[0], abs=1e-4)
            if value < threshold:
                assert found.logprobs == unscored[at].logprobs
                assert (together[at].text, same[0]) == (unedited[at].text, same[1])
            else:
                assert found.logprobs != pytest.approx(unscored[at].logprobs, abs=1e-2)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_cached_decoding_equals_whole_passes(prompt: str) -> None:
    """The prompt decides, not the generated tokens."""
    model = tiny_model()
    scores = sorted(scores_of(model))
    with adapted(model, (scores[0] + scores[1]) / 2):
        (found,) = model.generate([Generate(prompt=prompt, max_tokens=6)])
        ids = model.encode(prompt)
        length = len(ids)
        for _ in range(6):
            with torch.no_grad(), prompt_lengths([length]):
                logits = model.module(input_ids=torch.tensor([ids]), use_cache=False).logits
            ids.append(int(logits[0, -1].argmax()))
    assert model.decode(ids[length:]) == found.text
