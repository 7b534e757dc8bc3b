"""Attention to a shared prefix: equal to one softmax, fused on a CPU or in blocks, with bounded memory."""

import pytest
import torch

from ke_plugin_hf.decoding import attention
from ke_plugin_hf.decoding.forward import Forward
from ke_plugin_hf.testing import HEADS, tiny_model

HEAD = "Question: What is the capital of Italy? Answer: Rome.\n" * 3
ROWS = [f"{HEAD}Who is {'the author of ' * n}Misery?" for n in (1, 9, 4)]


@pytest.fixture
def in_blocks(monkeypatch):
    """Compute in blocks on a CPU too."""
    monkeypatch.setattr(attention, "FUSED", frozenset())


@pytest.fixture
def sizes(monkeypatch, in_blocks):
    """The number of scores computed at a time."""
    made, original = [], attention._in_one

    def watched(query, key, *rest):
        made.append(query.shape[:3].numel() * key.shape[2])
        return original(query, key, *rest)

    monkeypatch.setattr(attention, "_in_one", watched)
    return made


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("least", [1, 5])
def test_blockwise_attention_equals_one_softmax(monkeypatch, in_blocks, least, softcap):
    monkeypatch.setattr(attention, "LEAST", least)
    monkeypatch.setitem(attention.BLOCK, "cpu", 64)
    check_against_one_softmax(softcap)


def test_fused_attention_equals_one_softmax(monkeypatch):
    monkeypatch.setattr(attention, "_in_one", None)
    check_against_one_softmax(None)


def check_against_one_softmax(softcap):
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(3, heads, 13, 8, generator=draw) for heads in (4, 2, 2))
    prefix = tuple(torch.randn(2, 7, 8, generator=draw) for _ in range(2))
    sees = (torch.arange(13) <= torch.arange(13)[:, None]).expand(3, 1, 1, 13, 13)
    module = torch.nn.Module()
    module.layer_idx = 0
    with attention.active(attention.SharedPrefix(layers=[prefix], mask=sees)):
        found, _weights = attention.attend(module, query, key, value, None, softcap=softcap)

    keys, values = (torch.cat([p.expand(3, -1, -1, -1), own], 2) for p, own in zip(prefix, (key, value), strict=True))
    keys, values = keys.repeat_interleave(2, 1), values.repeat_interleave(2, 1)
    scores = query @ keys.transpose(-1, -2) / 8**0.5
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    scores[..., 7:].masked_fill_(~sees[:, 0], float("-inf"))
    torch.testing.assert_close(found, (scores.softmax(-1) @ values).transpose(1, 2))


def test_scores_of_a_long_row_are_computed_in_blocks(monkeypatch, sizes):
    model = tiny_model("llama")
    ids = [model.encode(row) for row in ROWS]
    begin = len(model.encode(HEAD)) - 1
    forward = Forward(model.module, "shared")
    head = forward.prefix(ids[0][:begin])
    monkeypatch.setitem(attention.BLOCK, "cpu", 1000)
    monkeypatch.setattr(attention, "LEAST", 16)
    logits, _state = forward.prefill(head, [row[begin:] for row in ids])
    longest = max(map(len, ids)) - begin
    assert longest > 2 * attention.LEAST
    assert max(sizes) <= len(ids) * HEADS * attention.LEAST * longest
    for row, found in zip(ids, logits[:, -1], strict=True):
        with torch.no_grad():
            whole = model.module(input_ids=torch.tensor([row])).logits[0, -1]
        torch.testing.assert_close(found, whole, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("device", "blocks"), [("cpu", 32), ("meta", 1)])
def test_accelerators_use_few_large_blocks(sizes, device, blocks):
    query = torch.empty(1, 2, 1, 8192, 8, device=device)
    key, value = torch.empty(1, 2, 1000, 8, device=device), torch.empty(1, 2, 1000, 8, device=device)
    attention._part(query, key, value, None)
    assert len(sizes) == blocks
