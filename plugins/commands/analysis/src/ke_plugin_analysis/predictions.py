"""Read a file of external predictions strictly: one JSON object per line, each with the text for a query of a case.

::

    {"case": "12", "query": "multi-hop-1", "text": "Croatia"}
    {"case": "12", "query": "Which country ...?", "text": "Croatia", "phase": "after", "style": "cot", "editor": "x"}

``query`` is the id of a query, or the text of the question. White space around the text does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.app import OWN, SourceLine, queries_of, read_lines, text_field
from ke_core.plugin import PHASES, BadData, Case, DatasetSpec, Phase, Query

FIELDS = ("case", "query", "text", "phase", "style", "editor", "batch", "edited")
IMPORTED_EDITOR = "imported"


@frozen(kw_only=True)
class Prediction:
    """One line. ``batch``: cases with the same name shared one edited model. ``edited``: false for a control."""

    place: SourceLine
    case: str
    query: str
    text: str
    phase: Phase
    style: str
    editor: str
    batch: str
    edited: bool


def read_predictions(path: Path, cases: Mapping[str, Case], dataset: DatasetSpec) -> list[Prediction]:
    """Yield every line of the file. Raises BadData that names file, line and field.

    A style defaults to ``own`` (a method's own prompts), for the unedited model to the dataset's first.
    """
    found: list[Prediction] = []
    first: dict[tuple[str, ...], SourceLine] = {}
    batches: dict[tuple[str, str], tuple[str, bool, SourceLine]] = {}
    for raw, place in read_lines(path):
        made = _prediction(raw, place, cases, dataset)
        key = (made.editor, made.case, made.phase, made.style, made.query)
        if key in first:
            raise place.wrong("query", f"{made.query!r} of case {made.case} is already answered in {first[key]}")
        first[key] = place
        batch, edited, where = batches.setdefault((made.editor, made.case), (made.batch, made.edited, place))
        if (batch, edited) != (made.batch, made.edited):
            raise place.wrong("batch or edited", f"of case {made.case} differ from {where}")
        found.append(made)
    if not found:
        raise BadData(f"{path} has no predictions", hint='{"case": ..., "query": ..., "text": ...} on each line')
    _require_after(path, found)
    return found


def _require_after(path: Path, found: Sequence[Prediction]) -> None:
    """Raise BadData for an editor with answers from before editing only: metrics score edited models."""
    after = {one.editor for one in found if one.phase == "after"}
    for one in found:
        if one.editor not in after:
            raise BadData(
                f'{path}: every line of editor {one.editor!r} has "phase": "before", so no answer can be scored',
                hint='add its answers after editing; for an unedited model: "phase": "after", "edited": false',
            )


def _prediction(
    raw: Mapping[str, Any], place: SourceLine, cases: Mapping[str, Case], dataset: DatasetSpec
) -> Prediction:
    unknown = sorted(set(raw) - set(FIELDS))
    if unknown:
        raise place.wrong(repr(unknown[0]), "is not a field of a prediction", hint=f"fields: {', '.join(FIELDS)}")
    name = text_field(raw, "case", place, needed=True)
    if name not in cases:
        raise place.wrong("case", f"{name!r} is not in {dataset.name}", hint=f"ke datasets sample {dataset.name}")
    phase = _phase(text_field(raw, "phase", place) or "after", place)
    styles = (*dataset.styles, OWN)
    style = text_field(raw, "style", place) or (OWN if phase == "after" else dataset.styles[0])
    if style not in styles:
        raise place.wrong("style", f"{style!r} is unknown: use one of {', '.join(styles)}")
    edited = raw.get("edited", True)
    if not isinstance(edited, bool):
        raise place.wrong("edited", "is neither true nor false")
    if not isinstance(raw.get("text"), str):
        raise place.wrong("text", "is missing" if raw.get("text") is None else "is not a text")
    return Prediction(
        place=place,
        case=name,
        query=_query(text_field(raw, "query", place, needed=True), cases[name], phase, place),
        text=raw["text"],
        phase=phase,
        style=style,
        editor=text_field(raw, "editor", place) or IMPORTED_EDITOR,
        batch=text_field(raw, "batch", place),
        edited=edited,
    )


def _phase(given: str, place: SourceLine) -> Phase:
    for phase in PHASES:
        if phase == given:
            return phase
    raise place.wrong("phase", f"{given!r} is unknown: use one of {', '.join(PHASES)}")


def _query(given: str, case: Case, phase: Phase, place: SourceLine) -> str:
    """Return the id of the query with that id or that text. ``given`` has no white space around it."""
    queries = list(queries_of(case, phase))
    named = [query for query in queries if query.id == given] or [query for query in queries if given in _texts(query)]
    if len(named) == 1:
        if named[0].continuations:
            raise place.wrong("query", f"{given!r} of case {case.id} needs log-probabilities, not a text")
        return named[0].id
    what = "matches several queries" if named else "is not a query"
    ids = [query.id for query in queries]
    near = get_close_matches(given, ids, n=3) or ids[:8]
    raise place.wrong(
        "query",
        f"{given!r} {what} of case {case.id} {phase} editing",
        hint=f"such as {', '.join(near)}" if ids else f"case {case.id} has none",
    )


def _texts(query: Query) -> Sequence[str]:
    return [text.strip() for text in (query.texts[0], query.cloze) if text]
