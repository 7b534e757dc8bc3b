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
    made, original = [], attention._block

    def watched(query, key, *rest):
        made.append(query.shape[:4].numel() * key.shape[2])
        return original(query, key, *rest)

    monkeypatch.setattr(attention, "_block", watched)
    return made


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("least", [1, 5])
def test_blockwise_attention_equals_one_softmax(monkeypatch, in_blocks, least, softcap):
    monkeypatch.setattr(attention, "LEAST", least)
    monkeypatch.setitem(attention.BLOCK, "cpu", 64)
    found, wanted = both(sees=causal(3, 13), softcap=softcap)
    torch.testing.assert_close(found.double(), wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 1e-6), (torch.float64, 1e-12), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)],
)
@pytest.mark.parametrize("least", [5, 64])
def test_fused_attention_equals_one_softmax(monkeypatch, dtype, tolerance, least):
    monkeypatch.setattr(attention, "_block", None)
    monkeypatch.setattr(attention, "LEAST", least)
    monkeypatch.setitem(attention.BLOCK, "cpu", 64)
    sees = causal(3, 13)
    sees[1, ..., :4] = False  # padding: the first queries of this row see none of its keys
    found, wanted = both(sees=sees, dtype=dtype)
    torch.testing.assert_close(found.double(), wanted, atol=tolerance, rtol=0)


def test_a_step_without_a_mask_is_one_fused_operation(monkeypatch):
    monkeypatch.setattr(attention, "_block", None)
    found, wanted = both(length=1)
    torch.testing.assert_close(found.double(), wanted, atol=1e-6, rtol=0)


def test_values_of_another_width_are_not_fused():
    found, wanted = both(sees=causal(3, 13), width=6)
    torch.testing.assert_close(found.double(), wanted, atol=1e-6, rtol=0)


def causal(rows, length):
    return (torch.arange(13) <= torch.arange(13 - length, 13)[:, None]).repeat(rows, 1, 1, 1, 1)


def both(*, sees=None, softcap=None, dtype=torch.float32, length=13, width=8):
    """Return the attention of three rows to 7 shared keys and 13 of their own, and what one softmax gives."""
    draw = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(*shape, generator=draw).to(dtype)

    query, key, value = drawn(3, 4, length, 8), drawn(3, 2, 13, 8), drawn(3, 2, 13, width)
    prefix = (drawn(2, 7, 8), drawn(2, 7, width))
    module = torch.nn.Module()
    module.layer_idx = 0
    with attention.active(attention.SharedPrefix(layers=[prefix], mask=sees)):
        found, _weights = attention.attend(module, query, key, value, None, softcap=softcap)

    keys, values = (torch.cat([p.expand(3, -1, -1, -1), own], 2) for p, own in zip(prefix, (key, value), strict=True))
    query, keys, values = query.double(), keys.repeat_interleave(2, 1).double(), values.repeat_interleave(2, 1).double()
    scores = query @ keys.transpose(-1, -2) / 8**0.5
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    if sees is not None:
        scores[..., 7:].masked_fill_(~sees[:, 0], float("-inf"))
    return found, (scores.softmax(-1) @ values).transpose(1, 2)


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
