"""Wording of numbers and counts: a table of phrases by relation, and general phrases for other relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import Attribute, field, fields, frozen

from ke_benchmarks.graph import KnowledgeGraph
from ke_core.plugin import BadData, parse_json

SLOT = "{}"
SMALL = 10_000  # smaller numbers have no separators: 8849 metres, the year 1999
HINT = 'write {"RELATION": {"noun": "population", "more": "larger", "less": "smaller", ...}}; see the README'


def _one_slot_or_none(_instance: object, attribute: Attribute[str], value: str) -> None:
    if value and value.count(SLOT) != 1:
        raise ValueError(f"{attribute.name} needs exactly one {{}}")


@frozen(kw_only=True)
class RelationWords:
    """Phrases of one relation. A number has a ``noun`` and is ``more``, ``less``, ``most`` or ``least``, in a ``unit``.

    ``one`` and ``several`` name the type of its subjects if their names are not enough: city, cities. A count is of
    ``many``: "countries that border {}"; ``how_many`` is its question: "How many countries border {}?".
    """

    noun: str = ""
    more: str = "larger"
    less: str = "smaller"
    most: str = "largest"
    least: str = "smallest"
    unit: str | None = None
    one: str = ""
    several: str = ""
    many: str = field(default="", validator=_one_slot_or_none)
    how_many: str = field(default="", validator=_one_slot_or_none)


Table = Mapping[str, RelationWords]


@frozen(kw_only=True)
class RecoeWording:
    """Writes questions and facts about a graph's entities."""

    graph: KnowledgeGraph
    table: Table

    def words(self, relation: str) -> RelationWords:
        """Return the table's phrases, or the general ones."""
        return self.table.get(relation, RelationWords())

    def noun(self, relation: str) -> str:
        """Return the noun of the number: "population"."""
        return self.words(relation).noun or self.graph.relation(relation).label

    def above(self, relation: str, bound: str) -> str:
        """Return a comparison with a bound in the relation's unit: "more than 500,000 square kilometres"."""
        own = self.words(relation).unit
        unit = self.graph.links[relation].unit if own is None else own
        return f"more than {bound} {unit}".rstrip()

    def which(self, relation: str) -> str:
        """Return the start of a question for one of its subjects: "Which", "Which city"."""
        return f"Which {self.words(relation).one}".rstrip()

    def subject(self, subject: str, relation: str) -> str:
        """Return a single subject: "Peru", "the city of Lima"."""
        own, name = self.words(relation).one, self.graph.mention(subject)
        return f"the {own} of {name}" if own else name

    def listed(self, subjects: Sequence[str], relation: str) -> str:
        """Return several subjects: "Peru and Chile", "the cities Lima and Quito"."""
        own, (*names, last) = self.words(relation).several, [self.graph.mention(key) for key in subjects]
        return f"{f'the {own} ' if own else ''}{', '.join(names)} and {last}"

    def number(self, subject: str, relation: str, value: str) -> str:
        """Return the sentence of a number."""
        return f"{self.graph.cloze(subject, relation).prompt} {value}."

    def many(self, subject: str, relation: str) -> str:
        """Return what is counted: "countries that border Peru"; otherwise the cloze's noun, or "answers to" the
        question.
        """
        own = self.words(relation).many or self.graph.noun(relation)
        if own:
            return own.replace(SLOT, self.graph.mention(subject))
        return f'answers to "{self.graph.question(subject, relation)}"'

    def how_many(self, subject: str, relation: str) -> str:
        """Return the question for a count."""
        own = self.words(relation).how_many
        if own:
            return own.replace(SLOT, self.graph.mention(subject))
        return f"What is the number of {self.many(subject, relation)}?"

    def count(self, subject: str, relation: str, value: int) -> str:
        """Return the sentence of a count."""
        return f"The number of {self.many(subject, relation)} is {value}."

    def counted(self, relation: str) -> str:
        """Return the relation of a count's triple, which differs from the relation of the counted entities."""
        many = self.words(relation).many
        return f"number of {many.replace(SLOT, '').strip() if many else self.graph.relation(relation).label}"


def format_number(value: float) -> str:
    """Format a number: 31,989,256; 8849; 0.5."""
    whole = int(value)
    if value != whole:
        return f"{value:,}" if value >= SMALL else str(value)
    return f"{whole:,}" if whole >= SMALL else str(whole)


def a(word: str) -> str:
    """Add the indefinite article."""
    return f"an {word}" if word[:1].lower() in "aeiou" else f"a {word}"


@cache
def atlas_phrases() -> Table:
    """Return the phrases of the embedded graph's relations."""
    raw = parse_json(files("ke_plugin_recoe").joinpath("atlas.json").read_bytes(), "atlas.json")
    return _table(raw, "atlas.json")


def read_words(name: str) -> Table:
    """Read the table from a JSON file; empty without a path. Raises BadData with file, relation and field."""
    if not name:
        return {}
    path = Path(name).expanduser()
    try:
        content = path.read_bytes()
    except OSError as wrong:
        raise BadData(f"cannot read {path}: {(wrong.strerror or str(wrong)).lower()}", hint=HINT) from wrong
    return _table(parse_json(content, path), str(path))


def _table(raw: Any, where: str) -> Table:
    if not isinstance(raw, dict):
        raise BadData(f"{where}: must map relations to phrases", hint=HINT)
    known = {one.name for one in fields(RelationWords)}
    found = {}
    for relation, given in raw.items():
        if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
            raise BadData(f"{where}, relation {relation}: must map names to words", hint=HINT)
        if given.keys() - known:
            raise BadData(f"{where}, relation {relation}: unknown field {min(given.keys() - known)!r}", hint=HINT)
        try:
            found[relation] = RelationWords(**given)
        except ValueError as wrong:
            raise BadData(f"{where}, relation {relation}: {wrong}", hint=HINT) from wrong
    return found
