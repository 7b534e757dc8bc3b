"""Caches between calls are freed for new weights and if memory runs out."""

import gc

import pytest
import torch
from attrs import evolve

from ke_core.plugin import Generate, KEError
from ke_plugin_hf.decoding.forward import Prefix
from ke_plugin_hf.decoding.memory import KEEPERS, halved
from ke_plugin_hf.decoding.prefixes import Prefixes
from ke_plugin_hf.guard import Dense
from ke_plugin_hf.testing import tiny_model

HEAD = "Question: What is the capital of Italy? Answer: Rome.\n" * 6
REQUESTS = [Generate(prompt=f"{HEAD}Who is {at}?", max_tokens=6) for at in range(3)]
WEIGHT = "model.layers.0.mlp.down_proj.weight"


@pytest.fixture(autouse=True)
def nobody_else_keeps_anything():
    gc.collect()  # models of earlier tests
    for keeper in KEEPERS:
        keeper.release()


class Maker:
    """Replaces a model: a prefix without keys and values."""

    def prefix(self, ids, _known):
        return Prefix(ids=tuple(ids), layers=())


def digests(kept):
    return [digest for digest, _prefix in kept._kept]


def test_prefixes_are_kept_for_two_sets_of_weights():
    kept, number = Prefixes(), iter(range(1, 99))
    for digest in ("unedited", "one", "unedited", "two", "two"):
        kept.get(Maker(), digest, [next(number)] * 20)
    assert digests(kept) == ["two", "two", "unedited", "unedited"]
    kept.get(Maker(), "three", [next(number)] * 20)
    assert digests(kept) == ["three", "two", "two"]
    kept.only("three")
    assert digests(kept) == ["three"]


def changed(model, share):
    patch = model.patch()
    weight = model.module.get_parameter(WEIGHT)
    return patch, Dense(delta=share * weight.detach())


def answered_under(model, share):
    patch, delta = changed(model, share)
    with patch:
        patch.add(WEIGHT, delta)
        return model.generate(REQUESTS)


def test_caches_of_undone_edits_are_dropped_before_the_next():
    model = tiny_model("llama")
    runner = model._runner
    model.generate(REQUESTS)
    unedited = digests(runner.prefixes)
    full = answered_under(model, 1.0)
    stopped = [evolve(one, stop=(its.text[-2:],)) for one, its in zip(REQUESTS, full, strict=True)]
    patch, delta = changed(model, 1.0)
    with patch:
        patch.add(WEIGHT, delta)
        model.generate(stopped)
    assert len(runner.readings) > 0
    assert len(set(digests(runner.prefixes))) == 2
    model.patch()
    assert len(runner.readings) == 0
    assert digests(runner.prefixes) == unedited


def test_caches_are_freed_before_work_is_split():
    model = tiny_model("llama")
    whole = model.generate(REQUESTS)
    seen = []

    def cramped(work):
        seen.append(len(work))
        if len(model._runner.prefixes) or len(work) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return len(work)

    assert halved("a", cramped, "letter") == [1]
    assert seen == [1, 1]
    assert model.generate(REQUESTS) == whole
    seen.clear()
    assert halved("abcd", cramped, "letter") == [2, 2]
    assert seen == [4, 4, 2, 2]


def test_a_single_piece_that_does_not_fit_is_an_error():
    tiny_model("llama").generate(REQUESTS)

    def full(_work):
        raise MemoryError

    with pytest.raises(KEError, match="out of memory for a single letter"):
        halved("ab", full, "letter")
