"""The active edits, and their file format: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from attrs import define, field, frozen

from ke_core.app import FIELD_NAMES, SourceLine, edit_from, normalize_statement, parse_lines, read_rows
from ke_core.plugin import BadData, Edit, KEError, SourcedEdit
from ke_plugin_serve.wire import DEEPEST, nesting

LONGEST = 2000  # characters of a statement: a fact, not a page


class Contradiction(KEError):
    """Two edits that cannot both be active."""


class UnknownEdit(KEError):
    """An edit that is not active."""


@frozen(kw_only=True)
class ServedEdit:
    """An edit with its original fields, which are saved unchanged."""

    sourced: SourcedEdit
    raw: Mapping[str, Any]

    @property
    def edit(self) -> Edit:
        """The edit itself."""
        return self.sourced.edit

    @cached_property
    def about(self) -> tuple[str, str] | None:
        """A key that contradicting edits share: the prompt, and the subject if there is one, without differences in
        case and spaces. None for a statement without a prompt.
        """
        if self.edit.free_form is not None:
            return _plain(self.edit.prompt), ""
        cloze = self.edit.cloze
        return (_plain(cloze.template), _plain(cloze.subject)) if cloze else None

    @cached_property
    def statement_key(self) -> str:
        """The content of an edit, independent of its format. It is unique among active edits."""
        return normalize_statement(self.edit.statement)

    def fields(self) -> dict[str, Any]:
        """The original fields with source and date, so that a restart keeps both."""
        given = given_fields(self.raw)
        own = {"source": self.sourced.source, "date": self.sourced.date}
        return {**self.raw, **{name: value for name, value in own.items() if name not in given}}

    def shown(self) -> dict[str, str]:
        """The edit as in ``GET /edits``."""
        return {
            "id": self.edit.id,
            "statement": self.edit.statement,
            "source": self.sourced.source,
            "date": self.sourced.date,
        }


@frozen(kw_only=True)
class ServedChange:
    """Edits to add and to remove. ``known``: ids of requested edits that are already active."""

    add: tuple[ServedEdit, ...] = ()
    remove: tuple[ServedEdit, ...] = ()
    known: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.remove)


@define
class ActiveEdits:
    """The active edits by id, in the order of arrival. Only one thread at a time may change them."""

    edits: dict[str, ServedEdit] = field(factory=dict)

    @classmethod
    def of(cls, kept: Iterable[ServedEdit]) -> Self:
        """Raises Contradiction for two edits of one id that differ, or of one prompt with two objects."""
        bank = cls()
        bank.make(bank.addition(tuple(kept)))
        return bank

    def addition(self, kept: Sequence[ServedEdit], *, replace: bool = False) -> ServedChange:
        """Return the change that adds ``kept``. Active edits are skipped. ``replace``: remove contradicting edits.

        Raises Contradiction for a contradicting edit, or another edit with the same id, without ``replace``.
        """
        index = _Index(self.edits.values())
        fresh: dict[str, ServedEdit] = {}
        known: list[str] = []
        gone: dict[str, ServedEdit] = {}
        for one in kept:
            clashes = index.clashes(one)
            others = [old for old in clashes if old.statement_key != one.statement_key]
            if clashes and not others:
                known.append(clashes[0].edit.id)
                continue
            for old in others:
                _may_replace(old, one, replace=replace and old.edit.id not in fresh)
            for old in clashes:
                index.remove(old)
                if fresh.pop(old.edit.id, None) is None:
                    gone[old.edit.id] = old
            fresh[one.edit.id] = one
            index.add(one)
        return ServedChange(add=tuple(fresh.values()), remove=tuple(gone.values()), known=tuple(known))

    def removal(self, names: Sequence[str]) -> ServedChange:
        """Return the change that removes edits by id or statement. Raises UnknownEdit if one is not active."""
        by_statement = {one.statement_key: one for one in self.edits.values()}
        found: dict[str, ServedEdit] = {}
        for name in names:
            one = self.edits.get(name) or by_statement.get(normalize_statement(name))
            if one is None:
                raise UnknownEdit(f"no active edit is called {name[:80]!r}", hint="ke serve edits list shows them")
            found[one.edit.id] = one
        return ServedChange(remove=tuple(found.values()))

    def make(self, change: ServedChange) -> None:
        """Apply the change. The list is replaced as a whole, because another thread may be reading it."""
        gone = {one.edit.id for one in change.remove}
        kept = {name: one for name, one in self.edits.items() if name not in gone}
        self.edits = kept | {one.edit.id: one for one in change.add}

    def __len__(self) -> int:
        return len(self.edits)


KEYS = (attrgetter("edit.id"), attrgetter("statement_key"), attrgetter("about"))
"""Keys that only one active edit may have."""


class _Index:
    """Active edits by each of the keys."""

    def __init__(self, kept: Collection[ServedEdit]) -> None:
        self._held: list[dict[object, ServedEdit]] = [{key(one): one for one in kept} for key in KEYS]

    def add(self, one: ServedEdit) -> None:
        """Add an edit."""
        for key, held in zip(KEYS, self._held, strict=True):
            held[key(one)] = one

    def remove(self, one: ServedEdit) -> None:
        """Remove an edit."""
        for key, held in zip(KEYS, self._held, strict=True):
            held.pop(key(one), None)

    def clashes(self, one: ServedEdit) -> list[ServedEdit]:
        """Return the active edits, each once, that have a key of ``one``; None is no key."""
        keys = [key(one) for key in KEYS]
        found = [held[key] for key, held in zip(keys, self._held, strict=True) if key is not None and key in held]
        return list({old.edit.id: old for old in found}.values())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _may_replace(old: ServedEdit, new: ServedEdit, *, replace: bool) -> None:
    if not replace:
        raise Contradiction(
            f"{new.edit.statement!r} contradicts the edit {old.edit.id}: {old.edit.statement!r}",
            hint="remove that one first, or add with replace",
        )


def kept_from(raw: Mapping[str, Any], place: SourceLine) -> ServedEdit:
    """Return the edit in a record of an edit file or a request. Raises BadData if the state file could not hold it."""
    sourced = edit_from(raw, place)
    if len(sourced.edit.statement) > LONGEST:
        raise place.wrong("statement", f"is longer than {LONGEST} characters")
    kept = ServedEdit(sourced=sourced, raw=raw)
    for name, value in raw.items():
        if what := _unwritable(value):
            raise place.wrong(name, what, hint="leave it out: edits are saved as JSON in UTF-8")
    _check_readable(kept, place)
    return kept


def _unwritable(value: object) -> str:
    """Return why ``value`` cannot be saved; empty if it can."""
    if nesting(value) > DEEPEST:
        return f"is nested more than {DEEPEST} levels deep"
    try:
        _line(value)
    except ValueError as error:
        return "holds half a character" if isinstance(error, UnicodeError) else "holds a number that is not finite"
    return ""


def _check_readable(kept: ServedEdit, place: SourceLine) -> None:
    """Read the line that will be saved, as a restart does. Raises BadData if the result is another edit."""
    ((raw, _place),) = parse_lines(_line(kept.fields()).decode(), of=str(place))
    again = edit_from(raw, place)
    if again != kept.sourced:
        raise BadData(f"{place} would be read as another edit after a restart: {again.edit.statement[:80]!r}")


def fields_of(sourced: SourcedEdit) -> dict[str, str]:
    """Return the fields of an edit with a cloze, from a sentence and its subject."""
    cloze = sourced.edit.cloze
    assert cloze is not None
    return {"prompt": cloze.template, "subject": cloze.subject, "target_new": sourced.target}


def kept_edit(sourced: SourcedEdit) -> ServedEdit:
    """An edit that was saved with an adaptor, with the fields that it would have in an edit file."""
    own = fields_of(sourced) if sourced.edit.cloze else {"statement": sourced.edit.statement}
    return ServedEdit(sourced=sourced, raw={"id": sourced.edit.id, **own})


# --- the file ---------------------------------------------------------------------------------------------


def read_bank(path: Path) -> ActiveEdits:
    """Read the edits in a file: JSON lines, one JSON list, or CSV. Raises BadData."""
    try:
        return ActiveEdits.of(kept_from(raw, place) for raw, place in read_rows(path))
    except Contradiction as error:
        raise BadData(f"{path}: {error.message}", hint="remove one of them") from error


def lines_of(bank: ActiveEdits) -> bytes:
    """Return the active edits as JSON lines."""
    return b"".join(_line(one.fields()) for one in bank.edits.values())


def _line(value: object) -> bytes:
    """Raise ValueError for a constant that is not JSON."""
    return f"{json.dumps(value, ensure_ascii=False, allow_nan=False)}\n".encode()


def given_fields(raw: Mapping[str, Any]) -> set[str]:
    """Return our names of the fields that have a value in a record, also inside ``requested_rewrite``."""
    inner = raw.get("requested_rewrite")
    flat = {**raw, **inner} if isinstance(inner, Mapping) else raw
    return {FIELD_NAMES[name] for name, value in flat.items() if name in FIELD_NAMES and value not in (None, "", [])}
