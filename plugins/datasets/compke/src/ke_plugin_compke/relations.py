"""The 40 properties of CompKE's table 9, by Wikidata id, with our own templates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from attrs import frozen

from ke_core.plugin import parse_json

SLOT = "{}"


@frozen(kw_only=True)
class RelationTemplate:
    """Phrases of a relation, each with one ``{}`` for its subject or object.

    ``cloze`` stops before the objects. ``many`` and ``one`` describe the objects by the subject ("official languages of
    {}"). ``has`` and ``lacks`` state that several subjects have, or lack, this object ("have {} as ...").
    """

    label: str = ""
    question: str = ""
    cloze: str = ""
    many: str = ""
    one: str = ""
    has: str = ""
    lacks: str = ""


Templates = Mapping[str, RelationTemplate]


@cache
def wikidata() -> Templates:
    """Return the templates by Wikidata id. Labels are ambiguous: P1037 and P57 are both directors, P27 and P17
    countries.
    """
    return _read("relations.json")


@cache
def atlas_templates() -> Templates:
    """Return templates for the relations of the embedded graph. Their questions and clozes come from the graph."""
    return _read("atlas.json")


def _read(file: str) -> Templates:
    text = files("ke_plugin_compke").joinpath(file).read_text(encoding="utf-8")
    return {relation: RelationTemplate(**raw) for relation, raw in parse_json(text, file).items()}
