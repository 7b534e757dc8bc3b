"""A prompt that continues an earlier text reuses its keys and values, with equal results."""

import pytest
import torch
from attrs import evolve

from ke_core.plugin import Generate
from ke_plugin_hf.decoding import memory
from ke_plugin_hf.decoding.forward import Forward
from ke_plugin_hf.decoding.passes import COUNTER
from ke_plugin_hf.decoding.prefill import PrefillCache, PrefillState
from ke_plugin_hf.testing import tiny_model

HEAD = "Question: What is the capital of Italy? Answer: Rome.\n" * 6
STARTS = [f"{HEAD}{n} times: Who is {'the author of ' * n}Misery? {'It is long. ' * 12}" for n in range(1, 6)]
FACT = "\nRetrieved fact: W. G. Sebald worked in the city of Norwich.\n"


def asked(model, prompts, tokens=24):
    """Two calls of a loop that continues each row after an added fact, and the number of tokens read."""
    full = model.generate([Generate(prompt=prompt, max_tokens=tokens) for prompt in prompts])
    first = [
        Generate(prompt=prompt, max_tokens=tokens, stop=(one.text[-4:],))
        for prompt, one in zip(prompts, full, strict=True)
    ]
    said = model.generate(first)
    assert {one.finish for one in said} == {"stop"}
    second = [
        Generate(prompt=f"{prompt}{one.text}{FACT}", max_tokens=8) for prompt, one in zip(prompts, said, strict=True)
    ]
    before = COUNTER.now().tokens
    return second, model.generate(second), COUNTER.now().tokens - before


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2"])
@pytest.mark.parametrize("rows", [5, 2])
def test_a_continued_text_reuses_its_keys_and_values(family, rows):
    model, fresh = tiny_model(family), tiny_model(family)
    second, found, fed = asked(model, STARTS[:rows])
    fresh.generate([Generate(prompt=HEAD * 2, max_tokens=1)])  # finds out which ways of running it hold
    before = COUNTER.now().tokens
    assert fresh.generate(second) == found
    whole = COUNTER.now().tokens - before
    assert fed <= whole - 60 * rows  # of what a tiny model writes not all is read back as it was written


def test_changed_weights_drop_the_cache():
    model, other = tiny_model("llama"), tiny_model("llama")
    second, _found, _fed = asked(model, STARTS)
    for one in (model, other):
        with torch.no_grad():
            one.module.model.layers[0].mlp.down_proj.weight.mul_(2)
    assert model.generate(second) == other.generate(second)


def test_rows_with_unequal_cached_lengths_share_a_pass():
    model = tiny_model("llama")
    forward = Forward(model.module, "shared")
    rows = [model.encode(prompt) for prompt in STARTS[:4]]
    shared = len(model.encode(HEAD)) - 2
    head, own = forward.prefix(rows[0][:shared]), [row[shared:] for row in rows]
    _logits, state = forward.prefill(head, own)
    for counts in ((0, 0, 0, 9), (3, 1, 2, 12), (len(own[0]) - 1, 0, 5, len(own[3]) - 1), (0, 0, 0, 0)):
        known = [
            tuple((keys[:, :count], values[:, :count]) for keys, values in state.own(at)) if count else ()
            for at, count in enumerate(counts)
        ]
        logits, after = forward.prefill(head, own, known=known)
        step = forward.step(after, [[7], [8], [9], [10]])
        for at, row in enumerate(rows):
            with torch.no_grad():
                want = model.module(input_ids=torch.tensor([[*row, 7 + at]])).logits[0, -2:]
            torch.testing.assert_close(torch.stack([logits[at, -1], step[at, -1]]), want, atol=1e-4, rtol=0)


def test_the_cache_can_be_empty_without_spare_memory(monkeypatch):
    monkeypatch.setattr(memory, "SPARE", 0)
    second, found, _fed = asked(tiny_model("llama"), STARTS)
    assert tiny_model("llama").generate(second) == found


def one(*ids, first=2):
    layer = (torch.zeros(2, len(ids) - first, 4), torch.zeros(2, len(ids) - first, 4))
    return PrefillState(ids=ids, first=first, layers=(layer,))


def test_the_longest_common_prefix_is_found_and_cut():
    kept = PrefillCache()
    kept.begin("a", 10**6)
    ids = tuple(range(50))
    for reading in (one(*ids[:20]), one(*ids[:40]), one(*ids[:30], 99, 98), one(7, *ids)):
        kept.keep(reading)
    found = kept.longest((*ids[:35], 0, 0, 0), 4)
    assert (found.ids, found.first) == (ids[:40], 4)
    assert found.layers[0][0].shape == (2, 31, 4)
    assert kept.longest(ids[:15], 2) is None, "too little to be of use"
    assert kept.longest(ids, 1) is None, "what lies between is not at hand"
    assert PrefillCache().longest(ids, 0) is None


def test_the_oldest_states_are_dropped_and_continuations_replace():
    kept, size = PrefillCache(), one(*range(20)).nbytes
    kept.begin("a", 3 * size)
    many = [one(at, *range(1, 20)) for at in range(4)]
    for reading in many[:3]:
        kept.keep(reading)
    assert kept.longest((*many[0].ids, 1), 2).ids == many[0].ids
    kept.keep(many[3])
    assert kept.longest((*many[0].ids, 1), 2), "it was used last"
    assert kept.longest((*many[1].ids, 1), 2) is None
    grown = evolve(many[3], ids=(*many[3].ids[:-1], 50))
    kept.keep(grown, instead=many[3].ids)
    assert kept.longest(grown.ids, 2).ids == grown.ids
    kept.begin("a", size)
    assert kept.longest((*many[0].ids, 1), 2) is None
    kept.begin("b", size)
    assert kept.longest(grown.ids, 2) is None
