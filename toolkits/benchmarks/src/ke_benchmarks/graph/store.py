"""A knowledge graph in an embedded store, pyoxigraph: for a user's own facts, up to millions.

Why pyoxigraph and not duckdb: a builder walks. It asks for the objects of one subject, and then of these; a step costs
0.02 ms here and 1.2 ms as a query of duckdb, which is the faster one only where a whole graph is joined at once. It
also reads RDF itself, and has no server, no schema, and one wheel.

Every entity and relation is the IRI ``ke:`` and its key, every literal a plain literal of its key, so that keys of any
spelling go in and come out as they were. Labels, aliases and kinds are triples like any others.
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
    """The module pyoxigraph. Raises BadConfig where it is not installed."""
    try:
        import pyoxigraph  # noqa: PLC0415  an extra
    except ImportError as missing:
        raise BadConfig("graphs of one's own need pyoxigraph", hint="pip install 'ke-benchmarks[graph]'") from missing
    return pyoxigraph


@frozen(kw_only=True, slots=False)
class StoredGraph(KnowledgeGraph):
    """Facts in a store; ``mentions`` counts the facts in which an entity stands. Made by ``open_graph``."""

    name: str
    version: str
    sources: tuple[Mapping[str, str], ...]
    sha256: str
    links: Mapping[str, Link] = field(repr=False)
    store: TripleStore = field(repr=False)
    mentions: Mapping[str, int] = field(repr=False)
    articles: frozenset[str] = frozenset()

    def node(self, key: str) -> Node:
        """The entity of that key with its kind; a literal is its own node. Raises KeyError."""
        found: Node = self._nodes(key)
        return found

    def entities(self, kind: str) -> tuple[Entity, ...]:
        """Every entity of that kind, by key."""
        return tuple(self.entity(key) for key in sorted(self.store.having(KIND, f"text:{kind}")))

    def objects(self, subject: Subject, relation: str) -> tuple[Entity, ...]:
        """What the subject is related to, by key."""
        self.links[relation]  # an unknown relation is a KeyError, here as in memory
        return tuple(self.entity(key) for key in sorted(self.store.objects(key_of(subject), relation)))

    def holders(self, relation: str, object_: Subject) -> tuple[Entity, ...]:
        """Who is related to the object, by key."""
        self.links[relation]
        return tuple(self.entity(key) for key in sorted(self.store.having(relation, key_of(object_))))

    def subjects(self, relation: str) -> Iterator[Entity]:
        """Every entity that has facts of that relation, by key."""
        self.links[relation]
        keys = sorted({subject for subject, _object in self.store.pairs(relation)})
        return (self.entity(key) for key in keys)

    def popularity(self, entity: Subject) -> int:
        """In how many facts the entity stands."""
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
    """Rows in pyoxigraph; everything goes in and comes out as keys."""

    def __init__(self) -> None:
        self._ox = oxigraph()
        self._store = self._ox.Store()

    def add(self, rows: Iterable[GraphRow]) -> None:
        """Add rows, in memory for a chunk of them at a time; a row that is there already is not added again."""
        rest = iter(rows)
        while chunk := [self._quad(row) for row in islice(rest, CHUNK)]:
            self._store.extend(chunk)

    def relations(self) -> list[str]:
        """Every relation that is not a label, an alias or a kind, by key."""
        found = self._store.query("SELECT DISTINCT ?p WHERE { ?s ?p ?o }")
        return sorted({_key(row["p"]) for row in found} - {LABEL, ALIAS, KIND})

    def pairs(self, relation: str) -> Iterator[tuple[str, str]]:
        """(subject, object) of every fact of that relation."""
        for quad in self._store.quads_for_pattern(None, _term(self._ox, relation), None):
            yield _key(quad.subject), _key(quad.object)

    def objects(self, subject: str, relation: str) -> list[str]:
        """The keys of what a subject is related to."""
        quads = self._store.quads_for_pattern(_term(self._ox, subject), _term(self._ox, relation), None)
        return [_key(quad.object) for quad in quads]

    def having(self, relation: str, object_: str) -> list[str]:
        """The keys of what is related to the object."""
        target = self._ox.Literal(object_) if literal(object_) else _term(self._ox, object_)
        return [_key(quad.subject) for quad in self._store.quads_for_pattern(None, _term(self._ox, relation), target)]

    def names(self, key: str) -> tuple[str, tuple[str, ...]]:
        """The label, English before others, and the aliases: other labels in English, and what is called an alias."""
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
        """Take out every fact in which one of the entities stands; how many facts that were."""
        gone = 0
        for key in keys:
            term = _term(self._ox, key)
            quads = [*self._store.quads_for_pattern(term, None, None), *self._store.quads_for_pattern(None, None, term)]
            for quad in quads:
                self._store.remove(quad)
                gone += _key(quad.predicate) not in (LABEL, ALIAS, KIND)
        return gone

    def clear(self, relation: str) -> None:
        """Take out every row of that relation."""
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
"""Which language's label is taken: English, none given, a variety of English, any other."""


def _rank(language: str) -> int:
    if language.lower() in RANKS[:2]:
        return RANKS.index(language.lower())
    return 2 if ENGLISH.match(language) else 3


def _term(ox: Any, key: str) -> Any:
    return ox.NamedNode(SCHEME + quote(key, safe=""))


def _key(term: Any) -> str:
    value: str = term.value
    return unquote(value[len(SCHEME) :]) if type(term).__name__ == "NamedNode" else value
