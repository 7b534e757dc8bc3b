"""Stacked patches are removed together, and each weight is saved once."""

from contextlib import ExitStack, suppress

import pytest
import torch

from ke_plugin_hf.guard import LowRank
from ke_plugin_hf.testing import tiny_model
from ke_weights.plugin import module_map


def names_of(model):
    return [layer.weight_name for layer in module_map(model.module).layers[:2]]


def update(model, seed):
    layer = module_map(model.module).layers[0]
    draw = torch.Generator().manual_seed(seed)
    rows, columns = layer.matrix.shape
    return LowRank(left=torch.randn(rows, 1, generator=draw), right=torch.randn(1, columns, generator=draw) / 10)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_stacked_patches_are_restored_bit_for_bit(dtype):
    model = tiny_model("llama", dtype=dtype)
    before, digests = dict(model.state()), []
    with model.chained() as chain, ExitStack() as stack:
        for seed in range(4):
            patch = stack.enter_context(model.patch())
            patch.add(names_of(model)[seed % 2], update(model, seed))
            chain.settle()
            chain.keep()
            assert not patch.originals()
            digests.append(model.digest)
        assert (len(chain._saved), len(chain._since)) == (2, 0)
    assert len(set(digests)) == 4
    assert dict(model.state()) == before


def test_a_failed_edit_removes_only_its_own_updates():
    model = tiny_model("gpt2")
    before = dict(model.state())
    with model.chained() as chain, ExitStack() as stack:
        stack.enter_context(model.patch()).add(names_of(model)[0], update(model, 0))
        chain.settle()
        first = model.digest
        with suppress(ZeroDivisionError), model.patch() as patch:
            patch.add(names_of(model)[0], update(model, 1))
            raise ZeroDivisionError
        assert model.digest == first
    assert dict(model.state()) == before


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_updates_settled_since_keep_can_be_undone(dtype):
    model = tiny_model("llama", dtype=dtype)
    before = dict(model.state())
    first, second = names_of(model)
    with model.chained() as chain:
        with model.patch() as patch:
            patch.add(first, update(model, 0))
            chain.settle()
            chain.keep()
        kept = model.digest
        with ExitStack() as stack:
            for seed, name in enumerate((first, second, first), start=1):
                stack.enter_context(model.patch()).add(name, update(model, seed))
                chain.settle()
        assert model.digest != kept
        chain.undo()
        assert model.digest == kept
    assert dict(model.state()) == before


def test_patches_opened_after_the_chain_are_independent():
    model = tiny_model("llama")
    with model.chained():
        pass
    before = model.digest
    with model.patch() as patch:
        patch.add(names_of(model)[0], update(model, 0))
    assert model.digest == before


def test_an_exception_in_the_chain_restores_all_weights():
    model = tiny_model("llama")
    before = dict(model.state())
    with suppress(ZeroDivisionError), model.chained() as chain, model.patch() as patch:
        patch.add(names_of(model)[0], update(model, 0))
        chain.settle()
        patch.add(names_of(model)[1], update(model, 1))
        raise ZeroDivisionError
    assert dict(model.state()) == before


def test_an_unclosed_patch_is_removed_with_the_chain():
    model = tiny_model("llama")
    before = dict(model.state())
    with model.chained():
        patch = model.patch()
        patch.__enter__()
        patch.add(names_of(model)[0], update(model, 0))
        assert dict(model.state()) != before
    assert dict(model.state()) == before
