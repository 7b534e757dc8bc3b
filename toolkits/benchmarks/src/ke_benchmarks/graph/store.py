"""A knowledge graph in the embedded store pyoxigraph, for your own facts, up to millions.

Why pyoxigraph and not duckdb: a builder follows facts from entity to entity. One step costs 0.02 ms here and 1.2 ms as
a query of duckdb, which is faster only for joins over a whole graph. pyoxigraph also reads RDF, and has no server, no
schema, and one wheel.

Every entity and relation is the IRI ``ke:`` plus its key, every literal a plain literal of its key, so that keys of any
spelling are preserved. Labels, aliases and types are triples like any others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any
from urllib.parse import quote, unquote

from attrs import field, frozen

from ke_benchmarks.graph.base import KnowledgeGraph, Link, Node, Subject, key_of, literal
from ke_benchmarks.graph.rows import ALIAS, ENGLISH, KIND, LABEL, GraphRow
from ke_core.plugin import BadConfig, Entity

SCHEME = "ke:"
CHUNK = 50_000


def oxigraph() -> Any:
    """Return the module pyoxigraph. Raises BadConfig if it is not installed."""
    try:
        import pyoxigraph  # noqa: PLC0415  an extra
    except ImportError as missing:
        raise BadConfig("your own graphs need pyoxigraph", hint="pip install 'ke-benchmarks[graph]'") from missing
    return pyoxigraph


@frozen(kw_only=True, slots=False)
class StoredGraph(KnowledgeGraph):
    """Facts in a store; ``mentions`` counts the facts of each entity. Created by ``open_graph``."""

    name: str
    version: str
    sources: tuple[Mapping[str, str], ...]
    sha256: str
    links: Mapping[str, Link] = field(repr=False)
    store: TripleStore = field(repr=False)
    mentions: Mapping[str, int] = field(repr=False)
    articles: frozenset[str] = frozenset()

    def node(self, key: str) -> Node:
        """Return the entity of that key with its type; a literal is its own node. Raises KeyError."""
        found: Node = self._nodes(key)
        return found

    def entities(self, kind: str) -> tuple[Entity, ...]:
        """Return every entity of that type, by key."""
        return tuple(self.entity(key) for key in sorted(self.store.having(KIND, f"text:{kind}")))

    def objects(self, subject: Subject, relation: str) -> tuple[Entity, ...]:
        """Return the objects of the subject, by key."""
        self.links[relation]  # an unknown relation is a KeyError, as in the graph in memory
        return tuple(self.entity(key) for key in sorted(self.store.objects(key_of(subject), relation)))

    def holders(self, relation: str, object_: Subject) -> tuple[Entity, ...]:
        """Return the subjects of the object, by key."""
        self.links[relation]
        return tuple(self.entity(key) for key in sorted(self.store.having(relation, key_of(object_))))

    def subjects(self, relation: str) -> Iterator[Entity]:
        """Yield every entity that has facts of that relation, by key."""
        self.links[relation]
        keys = sorted({subject for subject, _object in self.store.pairs(relation)})
        return (self.entity(key) for key in keys)

    def popularity(self, entity: Subject) -> int:
        """Return the number of facts of the entity."""
        return self.mentions.get(key_of(entity), 0)

    @cached_property
    def _nodes(self) -> Any:
        return lru_cache(maxsize=100_000)(self._read)

    def _read(self, key: str) -> Node:
        found = literal(key)
        if found is not None:
            return found
        if key not in self.mentions:
            raise KeyError(key)
        label, aliases = self.store.names(key)
        kinds = sorted(self.store.objects(key, KIND))
        return Node(
            entity=Entity(label=label or key, aliases=aliases, id=key),
            kind=kinds[0].partition(":")[2] if kinds else "thing",
            article=(label or key) in self.articles,
        )


class TripleStore:
    """Rows in pyoxigraph, by keys."""

    def __init__(self) -> None:
        self._ox = oxigraph()
        self._store = self._ox.Store()

    def add(self, rows: Iterable[GraphRow]) -> None:
        """Add rows, with one chunk in memory at a time. Existing rows are not added again."""
        rest = iter(rows)
        while chunk := [self._quad(row) for row in islice(rest, CHUNK)]:
            self._store.extend(chunk)

    def relations(self) -> list[str]:
        """Return every relation that is not a label, an alias or a type, by key."""
        found = self._store.query("SELECT DISTINCT ?p WHERE { ?s ?p ?o }")
        return sorted({_key(row["p"]) for row in found} - {LABEL, ALIAS, KIND})

    def pairs(self, relation: str) -> Iterator[tuple[str, str]]:
        """Yield (subject, object) of every fact of that relation."""
        for quad in self._store.quads_for_pattern(None, _term(self._ox, relation), None):
            yield _key(quad.subject), _key(quad.object)

    def objects(self, subject: str, relation: str) -> list[str]:
        """Return the keys of a subject's objects."""
        quads = self._store.quads_for_pattern(_term(self._ox, subject), _term(self._ox, relation), None)
        return [_key(quad.object) for quad in quads]

    def having(self, relation: str, object_: str) -> list[str]:
        """Return the keys of an object's subjects."""
        target = self._ox.Literal(object_) if literal(object_) else _term(self._ox, object_)
        return [_key(quad.subject) for quad in self._store.quads_for_pattern(None, _term(self._ox, relation), target)]

    def names(self, key: str) -> tuple[str, tuple[str, ...]]:
        """Return the label, preferably English, and the aliases: other English labels, and declared aliases."""
        subject = _term(self._ox, key)
        ranked = sorted(
            (_rank(quad.object.language or ""), quad.object.value)
            for quad in self._store.quads_for_pattern(subject, _term(self._ox, LABEL), None)
        )
        aliases = sorted(
            (_rank(quad.object.language or ""), quad.object.value)
            for quad in self._store.quads_for_pattern(subject, _term(self._ox, ALIAS), None)
        )
        label = ranked[0][1] if ranked else ""
        other = [text for rank, text in (*ranked[1:], *aliases) if rank < len(RANKS) and text != (label or key)]
        return label, tuple(dict.fromkeys(other))

    def remove(self, keys: Iterable[str]) -> int:
        """Remove every fact of the entities and return their number."""
        gone = 0
        for key in keys:
            term = _term(self._ox, key)
            quads = [*self._store.quads_for_pattern(term, None, None), *self._store.quads_for_pattern(None, None, term)]
            for quad in quads:
                self._store.remove(quad)
                gone += _key(quad.predicate) not in (LABEL, ALIAS, KIND)
        return gone

    def clear(self, relation: str) -> None:
        """Remove every row of that relation."""
        for quad in list(self._store.quads_for_pattern(None, _term(self._ox, relation), None)):
            self._store.remove(quad)

    def _quad(self, row: GraphRow) -> Any:
        if row.relation in (LABEL, ALIAS):
            object_ = self._ox.Literal(row.object, language=row.language or None)
        elif literal(row.object):
            object_ = self._ox.Literal(row.object)
        else:
            object_ = _term(self._ox, row.object)
        return self._ox.Quad(_term(self._ox, row.subject), _term(self._ox, row.relation), object_)


RANKS = ("en", "", "en-")
"""Languages by preference for labels: English, none, a variety of English, any other."""


def _rank(language: str) -> int:
    if language.lower() in RANKS[:2]:
        return RANKS.index(language.lower())
    return 2 if ENGLISH.match(language) else 3


def _term(ox: Any, key: str) -> Any:
    return ox.NamedNode(SCHEME + quote(key, safe=""))


def _key(term: Any) -> str:
    value: str = term.value
    return unquote(value[len(SCHEME) :]) if type(term).__name__ == "NamedNode" else value
