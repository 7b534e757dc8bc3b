"""The embedded graph: countries, capitals, continents, currencies, languages, neighbours and large cities.

``scripts/build_atlas.py`` made the file; ``ATLAS-NOTICE.txt`` beside it says from what and under which licences.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ke_benchmarks.graph.graph import Graph, parse

FILE = "atlas.json"


@cache
def load_atlas() -> Graph:
    """The atlas, read once a process (about 10 ms)."""
    return parse(files("ke_benchmarks.graph").joinpath(FILE).read_text(encoding="utf-8"), FILE)
