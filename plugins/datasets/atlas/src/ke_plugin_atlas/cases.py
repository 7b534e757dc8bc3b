"""Build a case from a chain: edits, single-hop questions before and after, and the multi-hop question in three
wordings.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ke_benchmarks.graph import Graph
from ke_core.plugin import EFFICACY, Case, Edit, Entity, Fact, Gold, Probe, Query
from ke_plugin_atlas.chains import AtlasChain, chains
from ke_plugin_atlas.wording import WORDINGS
from ke_plugin_atlas.world import AtlasHop, atlas_world


@cache
def cases() -> tuple[Case, ...]:
    """Return every case in order, identical in every process."""
    graph = atlas_world().graph
    return tuple(_case(graph, str(number), chain) for number, chain in enumerate(chains(), start=1))


def _case(graph: Graph, name: str, chain: AtlasChain) -> Case:
    edits = tuple(make_edit(graph, hop) for hop in chain.edited)
    ids = tuple(edit.id for edit in edits)
    before = tuple(hop_query(graph, hop) for hop in chain.before)
    after = tuple(_edit_query(graph, hop) if hop in chain.edited else hop_query(graph, hop) for hop in chain.after)
    tests = [query for query in after if query.edit]
    return Case(
        id=name,
        edits=edits,
        probes=(
            *(
                Probe(id=f"{EFFICACY}-{n}", aspect=EFFICACY, queries=(query,), edits=(ids[n - 1],))
                for n, query in enumerate(tests, start=1)
            ),
            Probe(id="instance-before", aspect="instance", queries=before, require="all", phase="before", edits=ids),
            Probe(id="instance-after", aspect="instance", queries=after, require="all", phase="after", edits=ids),
            Probe(
                id="multi-hop",
                aspect="multi-hop",
                queries=tuple(_wordings(graph, chain, before, after)),
                require="any",
                phase="both",
                edits=ids,
            ),
        ),
        facts_before=tuple(_fact(graph, hop) for hop in chain.before),
        facts_after=tuple(_fact(graph, hop) for hop in chain.after),
        tags={"hops": str(len(chain.after)), "edits": str(len(edits))},
    )


def make_edit(graph: Graph, hop: AtlasHop) -> Edit:
    """Return the edit that makes ``hop`` true. Its id names relation, subject and new object: ``currency/NO=JPY``."""
    after = _fact(graph, hop)
    return Edit(
        id=f"{_hop_id(hop)}={_short(hop.object)}",
        statement=after.text,
        before=graph.fact(hop.subject, hop.relation),
        after=after,
        cloze=graph.cloze(hop.subject, hop.relation),
        question=graph.question(hop.subject, hop.relation),
    )


def _fact(graph: Graph, hop: AtlasHop) -> Fact:
    text = f"{graph.cloze(hop.subject, hop.relation).prompt} {graph.mention(hop.object)}"
    return Fact(
        subject=graph.entity(hop.subject),
        relation=graph.relation(hop.relation),
        objects=(graph.entity(hop.object),),
        text=text,
    )


def hop_query(graph: Graph, hop: AtlasHop) -> Query:
    """Return the single-hop question of a hop in the original atlas."""
    return Query(
        id=_hop_id(hop),
        texts=(graph.question(hop.subject, hop.relation),),
        cloze=graph.cloze(hop.subject, hop.relation).prompt,
        gold=_gold(graph.entity(hop.object)),
        relation=hop.relation,
    )


def _edit_query(graph: Graph, hop: AtlasHop) -> Query:
    """Return the single-hop question of an edited hop, shared by the efficacy and the instance probe."""
    edit = make_edit(graph, hop)
    return Query(
        id=_hop_id(hop),
        texts=(graph.question(hop.subject, hop.relation),),
        cloze=graph.cloze(hop.subject, hop.relation).prompt,
        gold=_gold(*edit.added),
        pre_edit=_gold(*edit.removed),
        edit=edit.id,
        relation=hop.relation,
    )


def _wordings(graph: Graph, chain: AtlasChain, before: tuple[Query, ...], after: tuple[Query, ...]) -> Iterator[Query]:
    """Return the multi-hop question in each wording, with the others as alternatives."""
    for number in range(WORDINGS):
        yield Query(
            id=f"multi-hop-{number + 1}",
            texts=(*chain.questions[number:], *chain.questions[:number]),
            gold=_gold(graph.entity(chain.after[-1].object)),
            pre_edit=_gold(graph.entity(chain.before[-1].object)),
            hops=after,
            hops_before=before,
        )


def _gold(*entities: Entity) -> Gold:
    return Gold(entities=entities)


def _hop_id(hop: AtlasHop) -> str:
    return f"{hop.relation}/{_short(hop.subject)}"


def _short(entity: str) -> str:
    return entity.partition(":")[2]
