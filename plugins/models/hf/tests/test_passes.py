"""The number of forward passes and their tokens."""

import torch

from ke_core.plugin import Score
from ke_plugin_hf.testing import tiny_model
from ke_weights.hooks import Hooks, forward


def test_every_way_of_running_a_model_is_counted_and_nothing_else():
    model = tiny_model("llama")
    model.score([Score(prompt="a b", continuations=(" c",))])  # the first call finds out how the model can be run
    before = model.passes()
    assert model.passes() - before == before - before
    model.state()
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    forward(model.module, ids, torch.ones_like(ids))
    made = model.passes() - before
    assert (made.passes, made.tokens) == (1, 6)
    before = model.passes()
    model.score([Score(prompt="a b", continuations=(" c",))])
    assert (model.passes() - before).passes == 1


def test_a_pass_stopped_by_a_hook_counts_once():
    model = tiny_model("llama")
    before = model.passes()
    ids = torch.tensor([[1, 2, 3]])
    with Hooks() as hooks:
        hooks.stop_after(model.module.get_input_embeddings())
        assert forward(model.module, ids, torch.ones_like(ids)) is None
    made = model.passes() - before
    assert (made.passes, made.tokens) == (1, 3)
