"""Inputs and gradients of linear layers against the gradients of their weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ke_plugin_hf.layer_calls import LayerCall, State
from ke_plugin_hf.testing import Family, tiny_model
from ke_weights.gradients import layer_gradients
from ke_weights.hooks import frozen_module
from ke_weights.modules import find_parts
from ke_weights.scored_tokens import scored_tokens

ROWS = (([5, 6, 7], (8, 9)), ([11, 12, 13, 14, 15], (16,)))
SEEN: list[list[int]] = []


def see_answers(call: LayerCall, state: State) -> Tensor:
    """Count the answer tokens of each row."""
    SEEN.append(call.answer.sum(1).tolist())
    return call.output


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_products_of_inputs_and_gradients_sum_to_the_gradient_of_the_weight(family: Family) -> None:
    model = tiny_model(family, dtype="float64")
    names = [
        name for layer in find_parts(model.module).layers[1:] for name in (*layer.expansion, layer.projection_name)
    ]
    batch = scored_tokens(ROWS, model.device)
    other = (torch.full((1, 9), 20), torch.ones(1, 9, dtype=torch.long))
    with frozen_module(model.module), torch.enable_grad():
        found = layer_gradients(model.module, names, batch)
        joined = layer_gradients(model.module, names, batch, other)
    assert not any(parameter.requires_grad for parameter in model.module.parameters())

    model.module.requires_grad_(requires_grad=True)
    losses = batch.nll(batch.pick(model.module(input_ids=batch.ids, attention_mask=batch.mask).logits))
    losses.sum().backward()
    torch.testing.assert_close(found.losses, losses.detach())
    assert found.logits.shape[:2] == batch.ids.shape
    assert joined.logits.shape[:2] == (3, 9)
    for name in names:
        module = model.module.get_submodule(name)
        for made in (found, joined):
            summed = torch.einsum("bto,bti->oi", made.gradients[name], made.inputs[name])
            expected = module.weight.grad if family == "llama" else module.weight.grad.T
            torch.testing.assert_close(summed, expected)


def test_adaptors_see_which_tokens_are_the_prompt() -> None:
    model = tiny_model("llama")
    other = (torch.full((1, 9), 20), torch.ones(1, 9, dtype=torch.long))
    batch, name = scored_tokens(ROWS, model.device), "model.layers.1.mlp.down_proj"
    SEEN.clear()
    with (
        model.adapt("model.layers.2.mlp.down_proj", see_answers, {"on": torch.ones(1)}),
        frozen_module(model.module),
        torch.enable_grad(),
    ):
        layer_gradients(model.module, [name], batch, other)
    assert SEEN == [[1, 0, 0]]
