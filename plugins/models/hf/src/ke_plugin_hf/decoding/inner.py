"""Prefixes that only some rows of a batch share: read once, and copied into these rows.

Two continuations of one prompt share the prompt; questions about one relation may share demonstrations. The prefix of
the whole batch is not part of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ke_plugin_hf.decoding.forward import Forward, Layers, Prefix
from ke_plugin_hf.decoding.groups import PrefixGroup, grouped
from ke_plugin_hf.decoding.memory import first_pass

SHORTEST = 4  # tokens; copying the keys and values of fewer takes as long as computing them
PASS = {"cpu": 32, "cuda": 512}  # cost of one more pass, in tokens


def inner_groups(rows: Sequence[Sequence[int]], device: torch.device) -> list[PrefixGroup]:
    """Return groups of ``rows``, the tokens of each row after the batch's prefix that may be shared.

    Each group has its own prefix, or none. No group has one if all together would save less than another pass costs.
    """
    groups = grouped(rows, cost=0, shortest=SHORTEST)
    saved = sum((len(group.rows) - 1) * group.prefix for group in groups)
    if saved >= PASS.get(device.type, PASS["cpu"]):
        return groups
    return [PrefixGroup(rows=group.rows, prefix=0) for group in groups]


def read_each(
    forward: Forward, prefix: Prefix, texts: Sequence[Sequence[int]], device: torch.device
) -> dict[tuple[int, ...], Layers]:
    """Return the keys and values of each of ``texts``, which follow ``prefix``."""
    waiting = sorted(dict.fromkeys(map(tuple, texts)), key=len, reverse=True)
    found: dict[tuple[int, ...], Layers] = {}
    while waiting:
        some = waiting[: first_pass([len(text) for text in waiting], device)]
        _logits, state = forward.prefill(prefix, some)
        for row, text in enumerate(some):
            own = state.own(row)
            found[text] = tuple((keys[:, -len(text) :], values[:, -len(text) :]) for keys, values in own)
        waiting = waiting[len(some) :]
    return found
