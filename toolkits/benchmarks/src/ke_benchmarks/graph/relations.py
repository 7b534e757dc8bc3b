"""The table of relations that goes with a graph: ``--relations FILE.toml``.

::

    [relations.works-for]
    label = "employer"
    cloze = "{} works for"
    question = "Which company does {} work for?"
    subject = "person"          # kinds: what the subjects are, what the objects are
    object = "company"
    functional = true           # a subject has one object only
    inverse = "employs"         # the relation that says it backwards
    unit = ""                   # of numbers

Everything may be left out but the heading, and only the relations that stand there are used. ``articles`` at the top
lists the labels that take "the" in a sentence.
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
    """What the table says of a relation; None where it leaves that to the data."""

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
    """The relations that are used, by key, and the labels that take an article."""

    relations: Mapping[str, RelationDescription] = field(factory=dict)
    articles: frozenset[str] = frozenset()
    path: str = ""


def read_relations(path: Path) -> RelationTable:
    """The table in a TOML file. Raises BadData that names file, relation and field."""
    raw = read_toml(path, hint=HINT)
    rows, articles = raw.get("relations"), raw.get("articles", [])
    if not isinstance(rows, dict) or not rows:
        raise BadData(f"{path} names no relation", hint=HINT)
    if not isinstance(articles, list) or not all(isinstance(label, str) for label in articles):
        raise BadData(f"{path}: articles must be a list of labels", hint='articles = ["Netherlands"]')
    found = {key: _described(value, f"{path}, relation {key}") for key, value in rows.items()}
    for key, one in found.items():
        if one.inverse is not None and one.inverse not in found:
            raise BadData(f"{path}, relation {key}: its inverse {one.inverse!r} is no relation here", hint=HINT)
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
            raise BadData(f"{where}: {name} needs exactly one {{}}, where the subject goes", hint=HINT)
        if name in ("label", "subject", "object") and not str(value).strip():
            raise BadData(f"{where}: {name} is blank", hint=HINT)
    return RelationDescription(**raw)


def relation_of(key: str, told: RelationDescription, label: str | None) -> Relation:
    """The relation with its templates; what the table does not say is made from the label.

    A label that ends with a preposition ("works for") is taken for a verb, every other one for a noun ("capital").
    Raises BadData where there is no label but a bare id (X7).
    """
    name = told.label or label or readable(key)
    if not name:
        raise BadData(
            f"relation {key} has no label, only its id",
            hint="say what it is called in a table: --relations FILE.toml, or give it an rdfs:label",
        )
    verb = " " in name and name.rpartition(" ")[2] in PREPOSITIONS
    return Relation(
        label=name,
        id=key,
        cloze=told.cloze or (f"{SLOT} {name}" if verb else f"The {name} of {SLOT} is"),
        question=told.question or (f"{SLOT} {name} what?" if verb else f"What is the {name} of {SLOT}?"),
    )


def readable(key: str) -> str:
    """``worksFor``, ``works_for`` and ``works-for`` as "works for"; empty for a bare id or an address."""
    if BARE.match(key):
        return ""
    return " ".join(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).replace("_", " ").replace("-", " ").split()).lower()
