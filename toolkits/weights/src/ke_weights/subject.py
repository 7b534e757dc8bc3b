"""Token ids of a prompt and its target, and the position of the subject's last token.

Positions come from character offsets of the full text in one tokenizer call: adding the lengths of separately encoded
parts counts a BOS twice and misses merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import BadConfig, KEError, continued
from ke_plugin_hf.decoding.tokens import inside_ids


@frozen
class SubjectTokens:
    """Token ids of one text, and the index of its subject's last token from the left."""

    ids: tuple[int, ...]
    index: int

    def plus(self, target: Sequence[int]) -> SubjectTokens:
        """Return the ids with all but the last of the target's, for teacher forcing."""
        return SubjectTokens((*self.ids, *target[:-1]), self.index)

    @property
    def to_subject(self) -> SubjectTokens:
        """The ids up to the subject: later tokens cannot change a key."""
        return SubjectTokens(self.ids[: self.index + 1], self.index)


def locate(tokenizer: Any, text: str, span: tuple[int, int]) -> SubjectTokens:
    """Encode ``text`` and find the last token of ``span``.

    BOS is included if the tokenizer adds one, final special tokens are not. ``span`` are characters, end exclusive. A
    token that spans the subject's border belongs to the subject. Raises KEError for a tokenizer without offsets.
    """
    ids, offsets = encode(tokenizer, text)
    start, end = span
    inside = [at for at, (low, high) in enumerate(offsets) if max(low, start) < min(high, end)]
    if not inside:
        raise KEError(
            f"no token of {text!r} belongs to its subject {text[start:end]!r}",
            hint="use other letters: the tokenizer drops these",
        )
    return SubjectTokens(tuple(ids), inside[-1])


def encode(tokenizer: Any, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Return ids and character offsets of ``text``, without special tokens at its end."""
    if not getattr(tokenizer, "is_fast", False):
        raise KEError("this tokenizer returns no character offsets", hint="use the model's fast tokenizer")
    found = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
    ids, offsets, special = found["input_ids"], found["offset_mapping"], found["special_tokens_mask"]
    length = len(ids)
    while length and special[length - 1]:
        length -= 1
    return list(ids[:length]), [(int(low), int(high)) for low, high in offsets[:length]]


def target_ids(tokenizer: Any, prompt: str, target: str) -> tuple[int, ...]:
    """Return ids of ``target`` after ``prompt``, with one leading space and no special tokens.

    There is no space if the target begins a line. The ids come from the encoding of both together if it starts with the
    prompt's own ids, else from encoding the target separately, as scoring does.
    """
    spaced = continued(prompt, target)
    alone, _offsets = encode(tokenizer, prompt)
    both, _offsets = encode(tokenizer, prompt + spaced)
    if both[: len(alone)] == alone and len(both) > len(alone):
        return tuple(both[len(alone) :])
    return tuple(inside_ids(tokenizer, spaced))


def answer_ids(model: Any, prompt: str, target: str) -> tuple[int, ...]:
    """Return ids of ``target`` after the ids that ``model.encode`` returns for ``prompt``, as scoring does.

    They are those of ``target_ids``, except that many chat formats end in a line break, after which there is no space.
    """
    if model.chat:
        return tuple(model.encode_continuation(prompt, continued(prompt, target)))
    return target_ids(model.tokenizer, prompt, target)


def edit_room(model: Any) -> int:
    """Return the maximum number of tokens of an edit's prompt and target: the context without the chat format's."""
    return int(model.context) - (len(model.encode("a")) if model.chat else 0)


def end_of_sequence(tokenizer: Any, option: str) -> tuple[int, ...]:
    """Return the end-of-sequence token, which ``option`` needs, as a tuple of one id. Raises BadConfig without one."""
    if tokenizer.eos_token_id is None:
        raise BadConfig(f"{option}: the tokenizer has no end-of-sequence token", hint=f"set {option} to false")
    return (tokenizer.eos_token_id,)


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids and mask, int64 [rows, T], padded on the right, so that indices count from the left.

    The padding id is 0: it is masked, and with causal attention no real token sees it.
    """
    width = max(len(row) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = torch.tensor(row)
        mask[at, : len(row)] = 1
    return ids.to(device), mask.to(device)


def batches(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Group row indices into batches of at most ``tokens`` padded tokens, longest first to reduce padding."""
    found: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        if found and (len(found[-1]) + 1) * lengths[found[-1][0]] <= tokens:
            found[-1].append(index)
        else:
            found.append([index])
    return found
