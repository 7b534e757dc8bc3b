"""The number of forward passes and their tokens."""

import torch

from ke_core.plugin import Generate, Score
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


def test_the_head_reads_contiguous_states():
    """For a strided view of several rows, torch multiplies a batch, with a copy of the head for each row."""
    model, seen = tiny_model("llama"), []
    place = model.module.get_output_embeddings()
    prompts = [Generate(prompt=f"a b c d {last}", max_tokens=2) for last in "efg"]
    model.generate(prompts)  # the first call finds out how the model can be run
    handle = place.register_forward_pre_hook(lambda _module, args: seen.append(args[0]))
    model.generate(prompts)
    handle.remove()
    assert any(len(states) == 3 for states in seen)
    assert all(states.is_contiguous() for states in seen)
