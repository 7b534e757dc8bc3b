"""Open ``--graph atlas|FILE|sparql:URL`` as a graph."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

from ke_benchmarks.graph.base import Link, Node
from ke_benchmarks.graph.endpoint import extract
from ke_benchmarks.graph.graph import Graph, load_atlas, parse
from ke_benchmarks.graph.kinds import Kinds, Survey, kinds_of, link_kinds, survey
from ke_benchmarks.graph.rdf import read_rdf
from ke_benchmarks.graph.relations import BARE, RelationDescription, RelationTable, read_relations, relation_of
from ke_benchmarks.graph.rows import ALIAS, KIND, LABEL, GraphRow, SkippedRows
from ke_benchmarks.graph.store import FactStore
from ke_benchmarks.graph.tables import read_table
from ke_core.plugin import BadData, Entity, sha256_of

ATLAS, SPARQL = "atlas", "sparql:"
TABLES, RDF = (".tsv", ".csv"), (".nt", ".ttl")
HINT = f"--graph must be {ATLAS}, a file ({', '.join((*TABLES, *RDF, '.json'))}), or {SPARQL}URL"
NO_LABEL, OTHER = "an entity without a label", "a relation that is not in the table"


@frozen(kw_only=True)
class OpenedGraph:
    """A graph, the skipped parts of its source by reason, and the relations whose wording is made from their names."""

    graph: Graph
    skipped: SkippedRows
    unworded: tuple[str, ...] = ()


def open_graph(source: str, *, relations: Path | None = None, skip_unlabeled: bool = False) -> OpenedGraph:
    """Open the graph ``source``; ``relations`` is a table of its relations (``ke_benchmarks.graph.relations``).

    ``skip_unlabeled``: skip facts of entities without a label, instead of rejecting them. Raises BadData
    with file and record, BadConfig if pyoxigraph is not installed.
    """
    if source == ATLAS:
        if relations:
            raise BadData("the atlas has its own relations", hint="omit --relations")
        return OpenedGraph(graph=load_atlas(), skipped=SkippedRows())
    table = read_relations(relations) if relations else RelationTable()
    if source.startswith(SPARQL):
        url, skipped = source.removeprefix(SPARQL), SkippedRows()
        rows = list(extract(url, tuple(table.relations), skipped))
        said = hashlib.sha256("\n".join(sorted(map(repr, rows))).encode()).hexdigest()
        return _stored(rows, url, said, table, skipped, skip_unlabeled=skip_unlabeled)
    path = Path(source).expanduser()
    if not path.is_file():
        raise BadData(f"graph {source!r} does not exist", hint=HINT)
    if path.suffix == ".json":
        return OpenedGraph(graph=parse(_text(path), path.name), skipped=SkippedRows())
    if path.suffix not in (*TABLES, *RDF):
        raise BadData(f"{path}: unknown file format", hint=HINT)
    skipped = SkippedRows()
    read = read_table(path) if path.suffix in TABLES else read_rdf(path, skipped)
    return _stored(read, str(path), sha256_of(path), table, skipped, skip_unlabeled=skip_unlabeled)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as wrong:
        raise BadData(f"{path}: not text in UTF-8 ({wrong.reason})", hint="save it as UTF-8") from wrong


def _stored(
    rows: Iterable[GraphRow],
    name: str,
    sha256: str,
    table: RelationTable,
    skipped: SkippedRows,
    *,
    skip_unlabeled: bool,
) -> OpenedGraph:
    others: dict[str, None] = {}
    store = FactStore.of(_used(rows, table, skipped, others))
    for key in table.relations:
        if key not in store.facts:
            raise BadData(
                f"{table.path}: {name} has no fact of relation {key!r}",
                hint=f"it has: {', '.join([*store.facts, *others][:20]) or 'nothing'}",
            )
    if not store.facts:
        raise BadData(f"{name} contains no fact", hint="facts are lines with subject, relation, object")
    found = survey(store)
    nameless = sorted(key for key in found.mentions if BARE.match(key) and not store.names(key)[0])
    if nameless and not skip_unlabeled:
        raise _nameless(store, nameless, name)
    if nameless:
        skipped[NO_LABEL] += store.remove(nameless)
        found = survey(store)
    told = {key: table.relations.get(key, RelationDescription()) for key in store.facts}
    kinds = kinds_of(store, found, told)
    graph = Graph(
        name=Path(name).stem if "://" not in name else name,
        version=sha256[:12],
        sources=({"name": Path(name).name if "://" not in name else name, "version": sha256[:12]},),
        sha256=sha256,
        nodes={key: _node(store, key, kinds.entities[key], table.articles) for key in sorted(found.mentions)},
        links={key: _link(store, key, told[key], found, kinds) for key in store.facts},
        triples=store.facts,
    )
    unworded = tuple(key for key, one in told.items() if one.cloze is None or one.question is None)
    return OpenedGraph(graph=graph, skipped=skipped, unworded=unworded)


def _used(
    rows: Iterable[GraphRow], table: RelationTable, skipped: SkippedRows, others: dict[str, None]
) -> Iterator[GraphRow]:
    """Yield the rows of relations in the table (all without one), labels, aliases and types."""
    wanted = {*table.relations, LABEL, ALIAS, KIND} if table.relations else None
    for row in rows:
        if wanted is None or row.relation in wanted:
            yield row
        else:
            skipped[OTHER] += 1
            others[row.relation] = None


def _nameless(store: FactStore, nameless: list[str], name: str) -> BadData:
    """Return the error for entities without a label, with the first one and one of its facts."""
    first = nameless[0]
    where = next(" ".join(fact) for fact in store.statements() if first in (fact[0], fact[2]))
    more = f" (and {len(nameless) - 1} more)" if len(nameless) > 1 else ""
    return BadData(
        f"{name}: {first} has no label, only its id; it occurs in {where}{more}",
        hint="give it an rdfs:label, or skip such facts with --skip-unlabeled",
    )


def _node(store: FactStore, key: str, kind: str, articles: frozenset[str]) -> Node:
    label, aliases = store.names(key)
    return Node(
        entity=Entity(label=label or key, aliases=aliases, id=key), kind=kind, article=(label or key) in articles
    )


def _link(store: FactStore, key: str, told: RelationDescription, found: Survey, kinds: Kinds) -> Link:
    subject, object_ = link_kinds(key, told, found, kinds)
    return Link(
        relation=relation_of(key, told, store.names(key)[0] or None),
        subject=subject,
        object=object_,
        functional=found.functional[key] if told.functional is None else told.functional,
        inverse=told.inverse,
        unit=told.unit,
    )
