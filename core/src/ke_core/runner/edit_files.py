"""Edits from files (JSON lines, a JSON list, CSV) and from Python objects.

``ke edit``, ``ke serve`` and ``ke verify`` read edits with this module. It also reads the state files of ``ke serve``,
which are JSON lines after one header line.

Accepted field names: ``prompt``, ``subject``, ``target_new`` (EasyEdit; ``ground_truth`` is the old object), the same
inside ``requested_rewrite`` with ``{"str": ...}`` for objects (CounterFact), ``src``, ``alt`` and ``answers`` (zsRE),
and plain names.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
from attrs import evolve

from ke_core.spec.codec import digest, to_json
from ke_core.spec.errors import BadData, did_you_mean
from ke_core.spec.facts import SLOT, Cloze, Edit, Entity, Fact, FreeForm, Relation, SourcedEdit, continued
from ke_core.storage.json_reading import SourceLine, read_lines, text_field, texts_field

MISSING = frozenset({"nan", "NaT", "<NA>"})
"""How pandas prints an empty cell."""
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "prompt": ("prompt", "cloze", "sentence", "src"),
    "subject": ("subject",),
    "target_new": ("target_new", "object", "target", "new", "new_object", "alt"),
    "target_old": ("target_old", "target_true", "ground_truth", "old", "old_object", "answers"),
    "source": ("source", "url"),
    "date": ("date",),
    "paraphrases": ("paraphrases", "paraphrase_prompts", "rephrase_prompt", "rephrase", "paraphrase"),
    "question": ("question",),
    "id": ("id", "case_id"),
    "statement": ("statement",),
}
FIELD_NAMES: Mapping[str, str] = {spelling: name for name, spellings in SPELLINGS.items() for spelling in spellings}
FOREIGN = frozenset({
    "requested_rewrite", "relation_id", "pararel_idx", "neighborhood_prompts", "attribute_prompts",
    "generation_prompts", "locality_prompt", "locality_ground_truth", "portability_prompt", "portability_ground_truth",
    "locality", "portability", "relation", "pred", "loc", "loc_ans", "cond",
})  # fmt: skip
"""Fields of published files that concern evaluation and not the edit. They are ignored."""
HINT = f"fields: {', '.join(SPELLINGS)}; prompt and target_new are needed, or statement without them"
STATE_FIELD = "ke_serve_state"
"""The only field of the first line of a state file of ``ke serve``."""

Edits = str | Path | Iterable[Any]
"""A file, a pandas data frame, or mappings, dataclasses or attrs instances with the fields of an edit file."""


def read_edits(path: Path) -> tuple[SourcedEdit, ...]:
    """Return the edits of a file, in order. Raises BadData with file, line and field."""
    found = _unique((edit_from(raw, place) for raw, place in read_rows(path)), str(path))
    if not found:
        raise BadData(f"{path} contains no edit", hint=HINT)
    return found


def _unique(found: Iterable[SourcedEdit], source: str) -> tuple[SourcedEdit, ...]:
    """Return equal edits once. Raises BadData for different edits with the same id."""
    by_id: dict[str, SourcedEdit] = {}
    for one in found:
        other = by_id.setdefault(one.edit.id, one)
        if other.edit != one.edit:
            raise BadData(
                f"two edits in {source} have the id {one.edit.id!r}", hint="leave ids out, or make them distinct"
            )
    return tuple(by_id.values())


def edits_of(prompt: str = "", subject: str = "", target: str = "", edits: Edits = ()) -> tuple[SourcedEdit, ...]:
    """Return the edits in any accepted form. Raises BadData that names the edit and the field."""
    rows: Any = read_edits(Path(edits)) if isinstance(edits, str | Path) else edits
    rows = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    found = [_sourced(row, number) for number, row in enumerate(rows, start=1)]
    if prompt and not target:
        raise BadData("target is missing", hint='the new object of the fact, such as target="Cusco"')
    if prompt:
        raw = {"prompt": prompt, "subject": subject, "target_new": target}
        found.append(edit_from(raw, SourceLine(file="ke.edit")))
    if not found:
        raise BadData("no edit is given", hint="give prompt, subject and target, or edits=[...]")
    return _unique(found, "edits")


def _sourced(row: Any, number: int) -> SourcedEdit:
    if isinstance(row, SourcedEdit):
        return row
    if attrs.has(type(row)) or is_dataclass(row):
        row = to_json(row)
    if not isinstance(row, Mapping):
        raise BadData(f"edit {number} of edits is a {type(row).__name__}", hint="use dicts or dataclasses")
    filled = {name: _plain(value) for name, value in row.items() if isinstance(value, str) or str(value) not in MISSING}
    return edit_from(filled, SourceLine(file="edits", line=number))


def _plain(value: Any) -> Any:
    """Return a value of NumPy, and a date, as a value of JSON."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return value.isoformat() if isinstance(value, date) else value


def read_rows(path: Path) -> Iterator[tuple[Mapping[str, Any], SourceLine]]:
    """Yield the records of an edit file, without the header of a state file. Raises BadData."""
    suffix = path.suffix.lower()
    if suffix == ".toml":
        raise BadData(f"{path} is no edit file", hint="JSON lines or CSV; `ke apply` reads a TOML file of facts")
    found = _csv(path) if suffix == ".csv" else read_lines(path)
    return ((raw, place) for raw, place in found if STATE_FIELD not in raw)


def edit_from(raw: Mapping[str, Any], place: SourceLine, own: Collection[str] = ()) -> SourcedEdit:
    """Return the edit with these fields of a record. Raises BadData with location and field.

    ``own``: fields that the caller reads itself.
    """
    flat = _named(_unnested(raw, place), place, own)
    if "statement" in flat and "prompt" not in flat:
        about = _bare(flat, place)
    else:
        new = text_field(flat, "target_new", place, needed=True)
        old = text_field(flat, "target_old", place)
        if old and old == new:
            raise place.wrong("target_new", f"is {new!r}, which is also the old object: there is nothing to edit")
        about = _about_subject(flat, new, old, place) if "subject" in flat else _free_form(flat, new, old, place)
    return SourcedEdit(
        edit=evolve(
            about, id=text_field(flat, "id", place) or about.id, question=text_field(flat, "question", place) or None
        ),
        source=text_field(flat, "source", place) or str(place),
        date=_date(text_field(flat, "date", place), place),
        paraphrases=texts_field(flat, "paraphrases", place),
    )


def _about_subject(flat: Mapping[str, Any], new: str, old: str, place: SourceLine) -> Edit:
    """Return an edit whose prompt names its subject."""
    subject = text_field(flat, "subject", place, needed=True)
    template = _template(text_field(flat, "prompt", place, needed=True), subject, place)
    cloze = Cloze(template=template, subject=subject)
    relation = Relation(label=template, cloze=template)
    about = Entity(label=subject)
    before = Fact(subject=about, relation=relation, objects=(Entity(label=old),)) if old else None
    return Edit(
        id=digest([cloze.prompt, subject, new])[:12],
        statement=f"{cloze.prompt.rstrip()}{continued(cloze.prompt.rstrip(), new)}",
        before=before,
        after=Fact(subject=about, relation=relation, objects=(Entity(label=new),)),
        cloze=cloze,
    )


def _free_form(flat: Mapping[str, Any], new: str, old: str, place: SourceLine) -> Edit:
    """Return an edit without a subject: a prompt, and the text that should follow it."""
    prompt = text_field(flat, "prompt", place, needed=True)
    if SLOT in prompt:
        raise place.wrong("subject", f"is missing, and the prompt has {SLOT} in its place")
    return Edit(
        id=digest([prompt, new])[:12],
        statement=f"{prompt}{continued(prompt, new)}",
        free_form=FreeForm(prompt=prompt, target=new, old=old),
    )


def normalize_statement(statement: str) -> str:
    """Return a statement on one line, without its period."""
    return " ".join(statement.split()).rstrip(" .")


def _bare(flat: Mapping[str, Any], place: SourceLine) -> Edit:
    """Return an edit with only a statement, which editors that need no subject accept."""
    for name in flat:
        if name not in ("statement", "id", "source", "date"):
            raise place.wrong(name, "does not fit a bare statement", hint="add prompt, subject and target_new")
    statement = normalize_statement(text_field(flat, "statement", place, needed=True))
    if not statement:
        raise place.wrong("statement", "is missing or empty")
    return Edit(id=digest([statement])[:12], statement=statement)


def _unnested(raw: Mapping[str, Any], place: SourceLine) -> dict[str, Any]:
    """Return the fields with those of CounterFact's ``requested_rewrite`` merged, and objects as texts.

    zsRE's prompt is a question, so it is also the edit's question.
    """
    inner = raw.get("requested_rewrite", {})
    if not isinstance(inner, Mapping):
        raise place.wrong("requested_rewrite", "is not one edit")
    asked = {"question": raw["src"]} if "src" in raw else {}
    flat = {**asked, **raw, **inner}
    return {
        name: value["str"] if isinstance(value, Mapping) and "str" in value else value for name, value in flat.items()
    }


def _named(raw: Mapping[str, Any], place: SourceLine, own: Collection[str]) -> dict[str, Any]:
    """Return the fields under their standard names. Unknown fields are errors: a misspelled field would be lost."""
    found: dict[str, Any] = {}
    for name, value in raw.items():
        known = FIELD_NAMES.get(name)
        if known is None and name not in FOREIGN and name not in own:
            raise place.wrong(name, "is not a field of an edit", hint=did_you_mean(name, (*FIELD_NAMES, *own), HINT))
        if known is not None and value not in (None, "", []):
            if known in found:
                raise place.wrong(name, f"is a second {known}")
            first = known == "target_old" and isinstance(value, list)  # the others are aliases
            found[known] = value[0] if first else value
    return found


def _template(prompt: str, subject: str, place: SourceLine) -> str:
    if prompt.count(SLOT) == 1:
        return prompt
    if SLOT in prompt:
        raise place.wrong("prompt", f"contains {SLOT} {prompt.count(SLOT)} times", hint="the subject occurs once")
    if prompt.count(subject) != 1:
        if times := prompt.count(subject):
            what = f"contains its subject {subject!r} {times} times"
            raise place.wrong("prompt", what, hint=f"put {SLOT} in place of the subject, once")
        what = f"does not contain its subject {subject!r}"
        raise place.wrong("prompt", what, hint=f"spell the subject as in the prompt, or put {SLOT} in its place")
    return prompt.replace(subject, SLOT)


def _date(given: str, place: SourceLine) -> str:
    """Return the date in ISO 8601, by default today."""
    if not given:
        return date.today().isoformat()  # noqa: DTZ011  the day where the user is
    try:
        return date.fromisoformat(given[:10]).isoformat()
    except ValueError as error:
        raise place.wrong("date", f"is {given!r}", hint="write it as 2026-01-31") from error


def _csv(path: Path) -> Iterator[tuple[Mapping[str, Any], SourceLine]]:
    """Yield rows by their headings, separated by commas, semicolons or tabs.

    Several paraphrases in one cell are separated by ``|``.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            headings = stream.readline()
            delimiter = max(",;\t", key=headings.count)  # some spreadsheets write semicolons
            rows = csv.reader(chain([headings], stream), delimiter=delimiter)
            names = next(rows, [])
            for row in filter(None, rows):  # without blank lines
                place = SourceLine(file=str(path), line=rows.line_num)
                if len(row) != len(names):
                    raise BadData(f"{place} has {len(row)} cells, and the file has {len(names)} headings")
                yield {name: _cell(name, value) for name, value in zip(names, row, strict=True)}, place
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadData(
            f"cannot read {path}: {str(error).lower()}", hint="a CSV file in UTF-8, headings first"
        ) from error


def _cell(name: str, value: str) -> str | Sequence[str]:
    several = FIELD_NAMES.get(name) == "paraphrases"
    return [part.strip() for part in value.split("|") if part.strip()] if several else value
