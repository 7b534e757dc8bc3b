"""The checks of ``ke verify``: a file after ``--suite``, or an edit. Nothing here needs torch.

A suite is a file of JSON lines: ``{"kind": "changed", "prompt": "...", "expect": "...", "not": "..."}``.

=========== ==========================================================================================
kind        passes if the edited model's greedy answer begins with ...
=========== ==========================================================================================
changed     one of ``expect``
paraphrase  one of ``expect`` (a paraphrase of a changed fact)
consequence one of ``expect`` (a fact that follows from a changed one)
kept        one of ``expect``; without ``expect``: equals the unedited model's answer
=========== ==========================================================================================

A suite can also be an edit file (``prompt``, ``subject``, ``target_new``): the prompt is a ``changed`` check, and each
paraphrase a ``paraphrase`` check. ``expect`` is the new object; ``not`` is the old one, if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from attrs import frozen

from ke_core.app import FIELD_NAMES, Plugins, SourceLine, edit_from, read_rows, text_field, texts_field
from ke_core.plugin import BadData, SourcedEdit

Kind = Literal["changed", "kept", "paraphrase", "consequence"]
KINDS: tuple[Kind, ...] = get_args(Kind)
METRICS = ("efficacy", "paraphrase", "consequence", "kept", "forgetting", "preference")
FIELDS = ("kind", "prompt", "expect", "not", "id")


@frozen(kw_only=True)
class Check:
    """One line of a suite. ``wrong`` is its field ``not``."""

    id: str
    kind: Kind
    prompt: str
    expect: tuple[str, ...]
    wrong: tuple[str, ...]


def open_suite(path: Path, plugins: Plugins) -> tuple[Check, ...]:
    """Return the checks of a suite: those of the first ``ke_read_suite`` that reads it, or of ``read_suite``."""
    found: Sequence[Check] | None = plugins.manager.hook.ke_read_suite(path=path)
    return read_suite(path) if found is None else tuple(found)


def read_suite(path: Path) -> tuple[Check, ...]:
    """Read a suite, or an edit file as one. Raises BadData that names file, line and field."""
    found = tuple(check for raw, place in read_rows(path) for check in _checks(raw, place))
    if not found:
        raise BadData(f"{path} has no facts to check", hint=f"write one JSON object per line with {', '.join(FIELDS)}")
    seen: set[str] = set()
    for one in found:
        if one.id in seen:
            raise BadData(f"two lines of {path} have the id {one.id!r}", hint="remove the ids, or make them unique")
        seen.add(one.id)
    return found


def edit_checks(one: SourcedEdit) -> list[Check]:
    """Return a ``changed`` check of an edit, and one ``paraphrase`` check per paraphrase."""
    return [
        Check(
            id=f"{one.edit.id}/{number}" if number else one.edit.id,
            kind="paraphrase" if number else "changed",
            prompt=prompt,
            expect=(one.target,),
            wrong=(one.old,) if one.old else (),
        )
        for number, prompt in enumerate((one.prompt, *one.paraphrases))
    ]


def _checks(raw: Mapping[str, Any], place: SourceLine) -> list[Check]:
    is_edit = "kind" not in raw and any(FIELD_NAMES.get(name) in ("subject", "statement", "target_new") for name in raw)
    return _of_edit(raw, place) if is_edit or "requested_rewrite" in raw else [check_from(raw, place)]


def _of_edit(raw: Mapping[str, Any], place: SourceLine) -> list[Check]:
    one = edit_from(raw, place)
    if not one.edit.prompt:
        raise place.wrong("statement", "is not enough for a check", hint="add prompt, subject and target_new")
    return edit_checks(one)


def check_from(raw: Mapping[str, Any], place: SourceLine) -> Check:
    """Return the check with these fields of a record. Raises BadData with location and field."""
    for name in raw:
        if name not in FIELDS:
            raise place.wrong(name, "is not a field of a suite", hint=f"use the fields {', '.join(FIELDS)}")
    kind = text_field(raw, "kind", place, needed=True)
    if kind not in KINDS:
        raise place.wrong("kind", f"is {kind!r}", hint=f"use one of {', '.join(KINDS)}")
    expect = texts_field(raw, "expect", place)
    if kind != "kept" and not expect:
        raise place.wrong("expect", "is missing or empty", hint="add it: only kept facts can omit it")
    prompt = text_field(raw, "prompt", place, needed=True)
    return Check(
        id=text_field(raw, "id", place) or str(place.line),
        kind=kind,
        prompt=prompt,
        expect=expect,
        wrong=texts_field(raw, "not", place),
    )
