"""The check that a model's context holds every training example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import BadData
from ke_weights.subject import encode, target_ids

SHORT = 4
"""Texts whose UTF-8 bytes, times this, are fewer than the context's tokens are not encoded: they fit."""


@frozen(kw_only=True)
class ExampleTexts:
    """A training example's ``target`` and the ``prompts`` before it. ``name`` identifies it in an error message."""

    name: str
    target: str
    prompts: Sequence[str]


def check_lengths(examples: Sequence[ExampleTexts], tokenizer: Any, context: int, *, extra: int = 0) -> None:
    """Raise BadData if a prompt with its target and ``extra`` tokens has more than ``context`` tokens."""
    lengths = [
        (one.name, max(_length(tokenizer, text, one.target, context) for text in one.prompts)) for one in examples
    ]
    long = [(name, length + extra) for name, length in lengths if length + extra > context]
    if long:
        name, length = long[0]
        raise BadData(
            f"{len(long)} of {len(examples)} training examples have more than {context} tokens, the model's context: "
            f"the first, {name}, has {length}",
            hint="shorten or remove them in the data, or exclude them with --without FILE",
        )


def _length(tokenizer: Any, prompt: str, target: str, context: int) -> int:
    """Return the number of tokens; 0 for a text that is too short to matter."""
    if SHORT * len((prompt + target).encode("utf-8", "surrogatepass")) < context:
        return 0
    return len(encode(tokenizer, prompt)[0]) + len(target_ids(tokenizer, prompt, target))
