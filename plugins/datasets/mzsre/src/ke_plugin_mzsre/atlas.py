"""Records in the format of MzsRE about capitals in English and German, made from the embedded graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ke_benchmarks import sort_key
from ke_benchmarks.graph import Graph, load_atlas

COUNTRIES = {
    "DE": ("Deutschland", "Berlin"),
    "FR": ("Frankreich", "Paris"),
    "IT": ("Italien", "Rom"),
    "ES": ("Spanien", "Madrid"),
    "PL": ("Polen", "Warschau"),
    "AT": ("Österreich", "Wien"),
    "GR": ("Griechenland", "Athen"),
    "NO": ("Norwegen", "Oslo"),
    "SE": ("Schweden", "Stockholm"),
    "FI": ("Finnland", "Helsinki"),
    "HU": ("Ungarn", "Budapest"),
    "BE": ("Belgien", "Brüssel"),
    "CN": ("China", "Peking"),
    "JP": ("Japan", "Tokio"),
    "PE": ("Peru", "Lima"),
    "CA": ("Kanada", "Ottawa"),
    "CU": ("Kuba", "Havanna"),
    "TH": ("Thailand", "Bangkok"),
    "KE": ("Kenia", "Nairobi"),
    "MA": ("Marokko", "Rabat"),
    "DK": ("Dänemark", "Kopenhagen"),
    "PT": ("Portugal", "Lissabon"),
    "CZ": ("Tschechien", "Prag"),
    "RO": ("Rumänien", "Bukarest"),
}
"""Country code to the German names of country and capital."""
CONTINENTS = {
    "Africa": "Afrika",
    "Asia": "Asien",
    "Europe": "Europa",
    "North America": "Nordamerika",
    "South America": "Südamerika",
}
QUESTIONS = {
    "en": {
        "src": "What is the capital of {}?",
        "rephrase": "Which city serves as the capital of {}?",
        "portability": "On which continent is the capital of {}?",
        "loc": "nq question: on which continent is {}",
    },
    "de": {
        "src": "Was ist die Hauptstadt von {}?",
        "rephrase": "Welche Stadt dient als Hauptstadt von {}?",
        "portability": "Auf welchem Kontinent liegt die Hauptstadt von {}?",
        "loc": "Auf welchem Kontinent liegt {}?",
    },
}


@cache
def atlas_records() -> tuple[Mapping[str, Any], ...]:
    """Return the records: the capital of a country is that of a country on another continent."""
    graph = load_atlas()
    return tuple(
        {language: _half(graph, language, code) for language in QUESTIONS}
        for code in sorted(COUNTRIES, key=lambda code: sort_key("mzsre", code))
    )


def _half(graph: Graph, language: str, code: str) -> dict[str, Any]:
    others = [other for other in COUNTRIES if other != code]
    far = [other for other in others if _continent(graph, "en", other) != _continent(graph, "en", code)]
    new = min(far, key=lambda other: sort_key("mzsre new", code, other))
    near = min((other for other in others if other != new), key=lambda other: sort_key("mzsre near", code, other))
    words = QUESTIONS[language]
    country = _country(graph, language, code)
    return {
        "subject": country,
        "src": words["src"].format(country),
        "rephrase": words["rephrase"].format(country),
        "alt": COUNTRIES[new][1] if language == "de" else graph.objects(f"country:{new}", "capital")[0].label,
        "portability": {
            "New Question": words["portability"].format(country),
            "New Answer": _continent(graph, language, new),
        },
        "loc": words["loc"].format(_country(graph, language, near)),
        "loc_ans": _continent(graph, language, near),
    }


def _country(graph: Graph, language: str, code: str) -> str:
    return COUNTRIES[code][0] if language == "de" else graph.entity(f"country:{code}").label


def _continent(graph: Graph, language: str, code: str) -> str:
    name = graph.objects(f"country:{code}", "continent")[0].label
    return CONTINENTS[name] if language == "de" else name
