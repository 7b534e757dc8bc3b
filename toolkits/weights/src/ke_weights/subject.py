"""Token ids of a prompt and its target, and which token is the subject's last.

Positions come from character offsets on the full text, in one call of the tokenizer: adding lengths of
separately encoded parts counts a BOS twice and misses merges (pitfalls E3, V12).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import KEError, continued


@frozen
class SubjectTokens:
    """Token ids of one text, and the index of its subject's last token, counted from the left."""

    ids: tuple[int, ...]
    index: int

    def plus(self, target: Sequence[int]) -> SubjectTokens:
        """Teacher forcing: all but the last of the target's ids follow; the index stays."""
        return SubjectTokens((*self.ids, *target[:-1]), self.index)

    @property
    def to_subject(self) -> SubjectTokens:
        """Cut after the subject: by causality nothing behind it matters to a key."""
        return SubjectTokens(self.ids[: self.index + 1], self.index)


def locate(tokenizer: Any, text: str, span: tuple[int, int]) -> SubjectTokens:
    """Encode ``text`` (BOS as the tokenizer sees fit, nothing at the end) and find the last token of ``span``.

    ``span`` are characters, end exclusive. A token that a merge spans over the subject's border counts as the
    subject's. Raises KEError for a tokenizer without offsets.
    """
    ids, offsets = encode(tokenizer, text)
    start, end = span
    inside = [at for at, (low, high) in enumerate(offsets) if max(low, start) < min(high, end)]
    if not inside:
        raise KEError(
            f"no token of {text!r} belongs to its subject {text[start:end]!r}", hint="the tokenizer drops these letters"
        )
    return SubjectTokens(tuple(ids), inside[-1])


def encode(tokenizer: Any, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Ids and character offsets of ``text``, without special tokens at its end (more text follows)."""
    if not getattr(tokenizer, "is_fast", False):
        raise KEError("this tokenizer knows no character offsets", hint="use the model's fast tokenizer")
    found = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
    ids, offsets, special = found["input_ids"], found["offset_mapping"], found["special_tokens_mask"]
    length = len(ids)
    while length and special[length - 1]:
        length -= 1
    return list(ids[:length]), [(int(low), int(high)) for low, high in offsets[:length]]


def target_ids(tokenizer: Any, prompt: str, target: str) -> tuple[int, ...]:
    """Ids of ``target`` after ``prompt``: exactly one leading space, unless it begins a line, and no special tokens
    (pitfalls E1, E11).

    Taken from the encoding of both together where the prompt's own ids are a prefix of it, so that no
    tokenizer's idea of a word's start gets in the way; else the target is encoded by itself.
    """
    spaced = continued(prompt, target)
    alone, _offsets = encode(tokenizer, prompt)
    both, _offsets = encode(tokenizer, prompt + spaced)
    if both[: len(alone)] == alone and len(both) > len(alone):
        return tuple(both[len(alone) :])
    return tuple(tokenizer(spaced, add_special_tokens=False)["input_ids"])


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids and mask, int64 [rows, T], padded on the right, so that indices count from the left (pitfall V8).

    The padding id is 0: it is masked, and with causal attention nothing real ever sees it.
    """
    width = max(len(row) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = torch.tensor(row)
        mask[at, : len(row)] = 1
    return ids.to(device), mask.to(device)


def batches(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Indices of rows in batches of at most ``tokens`` padded tokens, longest first, so that padding is short."""
    found: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        if found and (len(found[-1]) + 1) * lengths[found[-1][0]] <= tokens:
            found[-1].append(index)
        else:
            found.append([index])
    return found
