"""What an adapter is trained on: token ids, and from where on they are predicted.

Ids of prompt and target are put one behind the other, never the texts: a border in the text can merge two tokens into
one, and the labels would then start one token off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import Edit
from ke_weights.plugin import OpenModel, as_rewrites, encode, target_ids


@frozen(kw_only=True)
class Example:
    """``ids[start:]`` are the labels: each is predicted from all ids before it. ``edit`` is the edit's id."""

    edit: str
    ids: tuple[int, ...]
    start: int


def objects(model: OpenModel, edits: Sequence[Edit]) -> list[Example]:
    """The cloze, and the new object as the labels. Raises UnsupportedEdit for edits that cannot be made together."""
    tokenizer, found = model.tokenizer, []
    for made in as_rewrites(edits, tokenizer, model.context):
        prompt = encode(tokenizer, made.prompt)[0]
        target = target_ids(tokenizer, made.prompt, made.target)
        found.append(Example(edit=made.id, ids=(*prompt, *target), start=len(prompt)))
    return found


def sentences(tokenizer: Any, edits: Sequence[Edit]) -> list[Example]:
    """The whole statement, every token but the first as a label."""
    texts = {edit.id: encode(tokenizer, edit.statement.strip())[0] for edit in edits}
    return [Example(edit=name, ids=tuple(ids), start=1) for name, ids in texts.items()]


def unfit(examples: Sequence[Example], context: int) -> Mapping[str, str]:
    """Examples without a label or longer than the context, by edit id, with the reason."""
    empty = {one.edit: "its statement has fewer than two tokens" for one in examples if len(one.ids) <= one.start}
    long = {one.edit: f"it has {len(one.ids)} tokens, and {context} fit" for one in examples if len(one.ids) > context}
    return empty | long
