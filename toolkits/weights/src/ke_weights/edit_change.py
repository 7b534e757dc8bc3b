"""A change of an edited model that learns edits one after another: which edits stay, and which are learned again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attrs import frozen

from ke_core.plugin import Edit, UnsupportedChange
from ke_plugin_hf.adaptors import Adaptor


@frozen(kw_only=True)
class EditChange:
    """``kept``: number of learned batches that stay. ``again``: later ones without the removed edits. ``new``: edits
    that are learned for the first time.
    """

    kept: int
    again: tuple[tuple[Edit, ...], ...]
    new: tuple[Edit, ...]

    @property
    def todo(self) -> tuple[Edit, ...]:
        """All edits to learn, in order."""
        return tuple(edit for batch in (*self.again, self.new) for edit in batch)


def edit_change(learned: Sequence[Sequence[Edit]], add: Sequence[Edit], remove: Sequence[str]) -> EditChange:
    """Return the change that removes edits from the batches ``learned``, in their order, and then adds others.

    An added edit that is in effect is left out: it was learned, and no later edit of its prompt. Raises
    UnsupportedChange for an unknown name.
    """
    names = [{edit.id for edit in batch} for batch in learned]
    unknown = [name for name in remove if not any(name in batch for batch in names)]
    if unknown:
        raise UnsupportedChange(f"there is no edit {unknown[0]!r} to remove", hint="remove edits that were made")
    latest = {edit.prompt: edit for batch in learned for edit in batch if edit.id not in remove}
    new = tuple(edit for edit in add if latest.get(edit.prompt) != edit)
    gone = {*remove, *(edit.id for edit in new)}
    kept = next((at for at, batch in enumerate(names) if batch & gone), len(names))
    left = (tuple(edit for edit in batch if edit.id not in gone) for batch in learned[kept:])
    return EditChange(kept=kept, again=tuple(batch for batch in left if batch), new=new)


@contextmanager
def restored_on_error(*adaptors: Adaptor) -> Iterator[None]:
    """Give the adaptors their states back if the block raises."""
    before = [dict(adaptor.state) for adaptor in adaptors]
    try:
        yield
    except BaseException:
        for adaptor, state in zip(adaptors, before, strict=True):
            adaptor.replace_state(state)
        raise
