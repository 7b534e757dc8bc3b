"""The edits of a codebook in their order, and what each one changed, so that it can be undone exactly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import BadData, Edit, from_json, loads, to_json
from ke_plugin_grace.codebook import Codebook
from ke_weights.plugin import AS_SAVED, load_state, save_state


@frozen(kw_only=True, eq=False)
class LearnedEdit:
    """An edit, the number of entries before it, and the entry that it changed, with its content before; or None."""

    edit: Edit
    entries: int
    changed: tuple[int, Codebook] | None


def undone(book: Codebook | None, learned: Sequence[LearnedEdit]) -> Codebook | None:
    """Return the codebook before the edits ``learned``, its latest ones in their order."""
    for one in reversed(learned):
        if one.entries == 0 or book is None:
            return None
        book = book.part(0, one.entries)
        if one.changed is not None:
            book = book.replaced(*one.changed)
    return book


def save_history(path: Path, book: Codebook | None, learned: Sequence[LearnedEdit], seed: int) -> None:
    """Write the codebook, its edits and the seed of its values to a safetensors file with a checksum."""
    tensors: dict[str, Tensor] = {}
    if book is not None:
        tensors |= book.state
    places = [-1 if one.changed is None else one.changed[0] for one in learned]
    before: Codebook | None = None
    for one in learned:
        if one.changed is not None:
            before = one.changed[1] if before is None else before.added(one.changed[1])
    if before is not None:
        tensors |= {f"before:{name}": tensor for name, tensor in before.state.items()}
    about = {
        "edits": json.dumps([to_json(one.edit) for one in learned]),
        "entries": json.dumps([one.entries for one in learned]),
        "changed": json.dumps(places),
        "seed": json.dumps(seed),
    }
    save_state(path, tensors, about)


def load_history(
    path: Path, device: torch.device, sizes: tuple[int, int]
) -> tuple[Codebook | None, tuple[LearnedEdit, ...], int]:
    """Read a file of ``save_history``. Raises BadData if it is damaged, or was made for a layer of other ``sizes``."""
    tensors, about = load_state(path, device)
    book = Codebook.of({name: one for name, one in tensors.items() if ":" not in name})
    if book is not None and (book.keys.shape[1], book.values.shape[1]) != sizes:
        raise BadData(f"{path} has keys and values of other sizes than the layer", hint=AS_SAVED)
    before = Codebook.of(
        {name.removeprefix("before:"): one for name, one in tensors.items() if name.startswith("before:")}
    )
    learned, row = [], 0
    for raw, entries, place in zip(*(loads(about[name]) for name in ("edits", "entries", "changed")), strict=True):
        changed = None
        if place >= 0 and before is not None:
            changed, row = (place, before.part(row, row + 1)), row + 1
        learned.append(LearnedEdit(edit=from_json(raw, Edit, of=str(path)), entries=entries, changed=changed))
    return book, tuple(learned), loads(about["seed"])
