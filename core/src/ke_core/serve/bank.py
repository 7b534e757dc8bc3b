"""Which edits are in force, and the file that remembers them: JSON lines, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from attrs import define, field, frozen

from ke_core.data.codec import digest
from ke_core.data.facts import Edit
from ke_core.data.patches import SourcedEdit
from ke_core.errors import BadData, KEError
from ke_core.files import write_atomic
from ke_core.run.edit_files import NAMES, edit_from, rows
from ke_core.run.lines import Place, text_field

STATEMENT = "statement"
LONGEST = 2000  # characters of a statement: a fact, not a page


class Contradiction(KEError):
    """Two edits that cannot both be in force."""


class UnknownEdit(KEError):
    """An edit that is not in force."""


@frozen(kw_only=True)
class Kept:
    """An edit, and its fields as they were given: that is how they are written again."""

    sourced: SourcedEdit
    raw: Mapping[str, Any]

    @property
    def edit(self) -> Edit:
        """The edit itself."""
        return self.sourced.edit

    @cached_property
    def about(self) -> tuple[str, str] | None:
        """What two edits have in common that say different things of one subject; None for a bare statement."""
        cloze = self.edit.cloze
        return (cloze.template.strip(), cloze.subject) if cloze else None

    @cached_property
    def said(self) -> str:
        """What an edit says, however it was given: no two edits in force say the same."""
        return _plain(self.edit.statement)

    def fields(self) -> dict[str, Any]:
        """As they were given, with source and date, so that what is read again has not come from there today."""
        said = {NAMES.get(name) for name, value in self.raw.items() if value}
        own = {"source": self.sourced.source, "date": self.sourced.date}
        return {**self.raw, **{name: value for name, value in own.items() if name not in said}}

    def shown(self) -> dict[str, str]:
        """As ``GET /edits`` lists it."""
        return {
            "id": self.edit.id,
            STATEMENT: self.edit.statement,
            "source": self.sourced.source,
            "date": self.sourced.date,
        }


@frozen(kw_only=True)
class Change:
    """What is to be put on, what taken off, and what was asked for but is in force already (``known``)."""

    add: tuple[Kept, ...] = ()
    remove: tuple[Kept, ...] = ()
    known: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.remove)

    def undone(self) -> Change:
        """The way back."""
        return Change(add=self.remove, remove=self.add)


@define
class Bank:
    """The edits in force by id, in the order they came. One thread at a time may change them."""

    edits: dict[str, Kept] = field(factory=dict)

    @classmethod
    def of(cls, kept: Iterable[Kept]) -> Self:
        """Raises Contradiction for two edits of one id that differ, or of one prompt with two objects."""
        bank = cls()
        bank.make(bank.addition(tuple(kept)))
        return bank

    def addition(self, kept: Sequence[Kept], *, replace: bool = False) -> Change:
        """What adding ``kept`` takes; what is said already is known. ``replace``: what says otherwise of the same goes.

        Raises Contradiction where one says otherwise, or under the same id, and is not to be replaced.
        """
        force = _Force(self.edits.values())
        fresh: dict[str, Kept] = {}
        known: list[str] = []
        gone: dict[str, Kept] = {}
        for one in kept:
            clashes = force.clashes(one)
            others = [old for old in clashes if old.said != one.said]
            if clashes and not others:
                known.append(clashes[0].edit.id)
                continue
            for old in others:
                _may_replace(old, one, replace=replace and old.edit.id not in fresh)
            for old in clashes:
                force.leave(old)
                if fresh.pop(old.edit.id, None) is None:
                    gone[old.edit.id] = old
            fresh[one.edit.id] = one
            force.enter(one)
        return Change(add=tuple(fresh.values()), remove=tuple(gone.values()), known=tuple(known))

    def removal(self, names: Sequence[str]) -> Change:
        """What taking off takes, by id or by statement. Raises UnknownEdit, and then nothing is taken off."""
        by_statement = {one.said: one for one in self.edits.values()}
        found: dict[str, Kept] = {}
        for name in names:
            one = self.edits.get(name) or by_statement.get(_plain(name))
            if one is None:
                raise UnknownEdit(f"no edit in force is called {name[:80]!r}", hint="ke serve edits list shows them")
            found[one.edit.id] = one
        return Change(remove=tuple(found.values()))

    def make(self, change: Change) -> None:
        """Put the change on the list, which is replaced whole: another thread may be reading it."""
        gone = {one.edit.id for one in change.remove}
        kept = {name: one for name, one in self.edits.items() if name not in gone}
        self.edits = kept | {one.edit.id: one for one in change.add}

    def __len__(self) -> int:
        return len(self.edits)


KEYS = (attrgetter("edit.id"), attrgetter("said"), attrgetter("about"))
"""What only one of the edits in force may have."""


class _Force:
    """Edits in force, by each of the keys."""

    def __init__(self, kept: Collection[Kept]) -> None:
        self._held: list[dict[object, Kept]] = [{key(one): one for one in kept} for key in KEYS]

    def enter(self, one: Kept) -> None:
        """Put an edit in force."""
        for key, held in zip(KEYS, self._held, strict=True):
            held[key(one)] = one

    def leave(self, one: Kept) -> None:
        """Take one off."""
        for key, held in zip(KEYS, self._held, strict=True):
            held.pop(key(one), None)

    def clashes(self, one: Kept) -> list[Kept]:
        """The edits in force, each once, that have a key of ``one``; None is no key."""
        keys = [key(one) for key in KEYS]
        found = [held[key] for key, held in zip(keys, self._held, strict=True) if key is not None and key in held]
        return list({old.edit.id: old for old in found}.values())


def _may_replace(old: Kept, new: Kept, *, replace: bool) -> None:
    if not replace:
        raise Contradiction(
            f"{new.edit.statement!r} contradicts the edit {old.edit.id}: {old.edit.statement!r}",
            hint="remove that one first, or add with replace",
        )


def kept_from(raw: Mapping[str, Any], place: Place) -> Kept:
    """An edit from its fields: those of ``ke edit``'s files, or a bare ``statement``. Raises BadData."""
    if STATEMENT in raw and not any(NAMES.get(name) == "prompt" for name in raw):
        sourced = _bare(raw, place)
    else:
        sourced = edit_from({name: value for name, value in raw.items() if name != STATEMENT}, place)
    if len(sourced.edit.statement) > LONGEST:
        raise place.wrong(STATEMENT, f"is longer than {LONGEST} characters")
    _check_writable(raw, place)
    return Kept(sourced=sourced, raw=raw)


def _check_writable(raw: Mapping[str, Any], place: Place) -> None:
    """Raise BadData for a field that ``write_bank`` could not write: a foreign one is kept as it came."""
    for name, value in raw.items():
        try:
            _line(value)
        except ValueError as error:
            what = "half a character" if isinstance(error, UnicodeError) else "a number that is not finite"
            raise place.wrong(name, f"holds {what}", hint="leave it out: edits are kept as JSON in UTF-8") from error


def _plain(statement: str) -> str:
    """A statement in one line, without its full stop."""
    return " ".join(statement.split()).rstrip(" .")


def fields_of(sourced: SourcedEdit) -> dict[str, str]:
    """The fields that make an edit with a cloze: what a sentence and its subject amount to."""
    cloze = sourced.edit.cloze
    assert cloze is not None
    return {"prompt": cloze.template, "subject": cloze.subject, "target_new": sourced.target}


def _bare(raw: Mapping[str, Any], place: Place) -> SourcedEdit:
    """A statement and nothing else: enough for a memory, not for an editor that needs a subject."""
    strange = [name for name in raw if name not in (STATEMENT, "id", "source", "date")]
    if strange:
        raise place.wrong(strange[0], "does not go with a bare statement", hint="say prompt, subject and target_new")
    statement = _plain(text_field(raw, STATEMENT, place, needed=True))
    if not statement:
        raise place.wrong(STATEMENT, "is missing or empty")
    when = text_field(raw, "date", place)
    try:
        day = date.fromisoformat(when) if when else date.today()  # noqa: DTZ011  the day where the server is
    except ValueError as error:
        raise place.wrong("date", f"is {when!r}", hint="write it as 2026-01-31") from error
    return SourcedEdit(
        edit=Edit(id=text_field(raw, "id", place) or digest([statement])[:12], statement=statement),
        source=text_field(raw, "source", place) or str(place),
        date=day.isoformat(),
    )


# --- the file ---------------------------------------------------------------------------------------------


def read_bank(path: Path) -> Bank:
    """The edits in a file: JSON lines, one JSON list, or CSV. Raises BadData."""
    try:
        return Bank.of(kept_from(raw, place) for raw, place in rows(path))
    except Contradiction as error:
        raise BadData(f"{path}: {error.message}", hint="leave one of them out") from error


def write_bank(path: Path, bank: Bank) -> None:
    """Write what is in force, one JSON object a line. Raises KEError, and then the file is as it was."""
    write_atomic(path, b"".join(_line(one.fields()) for one in bank.edits.values()))


def _line(value: object) -> bytes:
    """Raises ValueError for what is no JSON in UTF-8."""
    return f"{json.dumps(value, ensure_ascii=False, allow_nan=False)}\n".encode()
