"""The table of relations of a graph: ``--relations FILE.toml``.

::

    [relations.works-for]
    label = "employer"
    cloze = "{} works for"
    question = "Which company does {} work for?"
    subject = "person"          # types of the subjects and of the objects
    object = "company"
    functional = true           # a subject has one object only
    inverse = "employs"         # the inverse relation
    unit = ""                   # of numbers

All fields are optional. Only relations in the table are used. ``articles`` at the top lists the labels that need "the"
in a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ke_core.plugin import SLOT, BadData, Relation, read_toml

KNOWN: dict[str, type] = {
    "label": str, "cloze": str, "question": str, "subject": str, "object": str, "functional": bool, "inverse": str,
    "unit": str,
}  # fmt: skip
BARE = re.compile(r"[PQ]\d+\Z|.*://")
PREPOSITIONS = frozenset(("for", "in", "of", "by", "at", "to", "with", "on", "from", "as"))
HINT = f"a relation is [relations.KEY] with any of: {', '.join(KNOWN)}"


@frozen(kw_only=True)
class RelationDescription:
    """The table's entry for a relation. None: determined from the data."""

    label: str | None = None
    cloze: str | None = None
    question: str | None = None
    subject: str | None = None
    object: str | None = None
    functional: bool | None = None
    inverse: str | None = None
    unit: str = ""


@frozen(kw_only=True)
class RelationTable:
    """The relations to use, by key, and the labels that need an article."""

    relations: Mapping[str, RelationDescription] = field(factory=dict)
    articles: frozenset[str] = frozenset()
    path: str = ""


def read_relations(path: Path) -> RelationTable:
    """Read the table from a TOML file. Raises BadData with file, relation and field."""
    raw = read_toml(path, hint=HINT)
    rows, articles = raw.get("relations"), raw.get("articles", [])
    if not isinstance(rows, dict) or not rows:
        raise BadData(f"{path} contains no relation", hint=HINT)
    if not isinstance(articles, list) or not all(isinstance(label, str) for label in articles):
        raise BadData(f"{path}: articles must be a list of labels", hint='articles = ["Netherlands"]')
    found = {key: _described(value, f"{path}, relation {key}") for key, value in rows.items()}
    for key, one in found.items():
        if one.inverse is not None and one.inverse not in found:
            raise BadData(f"{path}, relation {key}: unknown inverse {one.inverse!r}", hint=HINT)
    return RelationTable(relations=found, articles=frozenset(articles), path=str(path))


def _described(raw: Any, where: str) -> RelationDescription:
    if not isinstance(raw, dict):
        raise BadData(f"{where}: must be a table", hint=HINT)
    for name, value in raw.items():
        if name not in KNOWN:
            raise BadData(f"{where}: unknown field {name!r}", hint=HINT)
        if type(value) is not KNOWN[name]:
            raise BadData(f"{where}: {name} must be {'true or false' if name == 'functional' else 'a text'}", hint=HINT)
        if name in ("cloze", "question") and str(value).count(SLOT) != 1:
            raise BadData(f"{where}: {name} needs exactly one {{}} for the subject", hint=HINT)
        if name in ("label", "subject", "object") and not str(value).strip():
            raise BadData(f"{where}: {name} is blank", hint=HINT)
    return RelationDescription(**raw)


def relation_of(key: str, told: RelationDescription, label: str | None) -> Relation:
    """Return the relation with its templates; missing ones are built from the label.

    A label that ends with a preposition ("works for") is used as a verb, any other as a noun ("capital"). Raises
    BadData if there is a bare id instead of a label.
    """
    name = told.label or label or readable(key)
    if not name:
        raise BadData(
            f"relation {key} has no label, only its id",
            hint="name it in a table (--relations FILE.toml), or give it an rdfs:label",
        )
    verb = " " in name and name.rpartition(" ")[2] in PREPOSITIONS
    return Relation(
        label=name,
        id=key,
        cloze=told.cloze or (f"{SLOT} {name}" if verb else f"The {name} of {SLOT} is"),
        question=told.question or (f"{SLOT} {name} what?" if verb else f"What is the {name} of {SLOT}?"),
    )


def readable(key: str) -> str:
    """Return ``worksFor``, ``works_for`` and ``works-for`` as "works for"; empty for a bare id or an address."""
    if BARE.match(key):
        return ""
    return " ".join(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).replace("_", " ").replace("-", " ").split()).lower()
