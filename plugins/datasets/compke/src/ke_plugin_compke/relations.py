"""The 40 properties that CompKE's table 9 lists, by Wikidata id, with templates of our own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from attrs import frozen

from ke_core.plugin import parse_json

SLOT = "{}"


@frozen(kw_only=True)
class RelationTemplate:
    """How a relation is asked and told, each text with one ``{}`` for what it is about.

    ``cloze`` stops where the objects start. ``many`` and ``one`` name the objects by the subject ("official languages
    of {}"). ``has`` and ``lacks`` say of several subjects that they have this object ("have {} as ...").
    ``functional``: a subject has one object only; the others are the paper's one-to-many (P57, P106 could be either).
    """

    label: str = ""
    question: str = ""
    cloze: str = ""
    many: str = ""
    one: str = ""
    has: str = ""
    lacks: str = ""
    functional: bool = False


Templates = Mapping[str, RelationTemplate]


@cache
def wikidata() -> Templates:
    """By Wikidata id. P1037 and P57 are both directors, P27 and P17 both countries: nothing goes by wording."""
    return _read("relations.json")


@cache
def of_the_atlas() -> Templates:
    """For the relations of the atlas that its dataset uses; their questions and clozes are the graph's own."""
    return _read("atlas.json")


def _read(file: str) -> Templates:
    text = files("ke_plugin_compke").joinpath(file).read_text(encoding="utf-8")
    return {relation: RelationTemplate(**raw) for relation, raw in parse_json(text, file).items()}
