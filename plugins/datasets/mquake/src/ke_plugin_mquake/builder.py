"""MQuAKE's construction (section 3 of the paper) for any knowledge graph: ``ke build mquake``.

1. Enumerate sequences of 2 to 4 relations, and chains of facts along them (``chains``).
2. Sample edits: in one counterfactual world for all cases, separately for each case as in the paper, or, with
   ``newer``, the facts that differ in a newer graph. The edited chain must be complete and have another end.
3. Drop chains with an unedited fact that the model does not recall.
4. Write questions that name the head of the chain and nothing else on it, in three wordings (``wording``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path

from attrs import asdict, field, frozen

from ke_benchmarks import graph as graphs
from ke_benchmarks.graph import BuildTools, KnowledgeGraph, RecallProbe
from ke_core.plugin import BadData, Entity, Gold
from ke_plugin_mquake import MquakeBuild
from ke_plugin_mquake.chains import ChainHop, EditedFacts, Edits, IndependentEdits, RealChanges, WalkableGraph, walk
from ke_plugin_mquake.records import Chains, MquakeRecord, MquakeRewrite, SingleHop, Triple, WikidataEntity
from ke_plugin_mquake.snapshots import TwoSnapshots
from ke_plugin_mquake.wording import RelationPhrases, wordings

BATCH = 64  # chains whose facts are checked for recall in one batch
TURNS = 40  # heads tried for a sequence of relations before the next sequence gets its turn
BROKEN, SAME = "the chain is incomplete or has a cycle", "no fact on the chain is edited"
ANSWER = "the answer does not change, or shares a name with the old one"
NAMES = "the question names another entity of the chain"
LABELS = "two entities of the chain share a name"
UNKNOWN = "the model does not recall a fact of the chain"
CLASH = "another entity with the same name has a different edit"


@frozen(kw_only=True)
class CaseCandidate:
    """Original and edited chain of a possible case."""

    path: tuple[str, ...]
    before: tuple[ChainHop, ...]
    after: tuple[ChainHop, ...]


@frozen
class MquakeBuilder:
    """Builder of MQuAKE cases. ``words``: phrases by relation that replace the templates of the graph."""

    config: MquakeBuild
    words: Mapping[str, RelationPhrases] = field(factory=dict)

    def records(self, graph: KnowledgeGraph, tools: BuildTools) -> Iterator[Mapping[str, object]]:
        """Yield records in the published format. Raises BadData if the graph has no usable chain."""
        for record in self.built(graph, tools):
            raw = asdict(record)
            raw.pop("answer_extended")
            yield raw

    def built(self, graph: KnowledgeGraph, tools: BuildTools) -> Iterator[MquakeRecord]:
        """Yield the records as objects."""
        edits = self._edits(graph, tools.seed)
        done, found = 0, self._found(edits, tools)
        taken: dict[tuple[str, str], tuple[str, str]] = {}
        while some := list(islice(found, min(BATCH, max(1, tools.cases - done)))):
            for candidate in self._recalled(some, edits.ground.graph, tools):
                record = self._record(candidate, edits.ground.graph, tools, done + 1)
                if record is None or not _is_unambiguous(candidate, taken, tools):
                    continue
                yield record
                done += 1
                if done == tools.cases:
                    return
        if not done:
            hops = " or ".join(map(str, self.config.hops))
            raise BadData(
                f"{graph.name} has no usable chain of {hops} relations",
                hint="a chain needs relations with one object each, objects that have facts of their own, and another "
                "object of the same relation, for the edit",
            )

    # --- edits ---------------------------------------------------------------------------------------------

    def _edits(self, graph: KnowledgeGraph, seed: int) -> Edits:
        config = self.config
        chosen = graph.relations(config.relations)
        if not config.newer:
            ground = WalkableGraph(graph=graph, seed=seed, popular=config.popular, chosen=chosen)
            return (
                EditedFacts(ground=ground, share=config.share)
                if config.edits == "world"
                else IndependentEdits(ground=ground)
            )
        table = Path(config.newer_relations) if config.newer_relations else None
        newer = graphs.open_graph(config.newer, relations=table).graph
        both = TwoSnapshots.of(graph, newer)
        return RealChanges(ground=WalkableGraph(graph=both, seed=seed, chosen=chosen), newer=newer)

    # --- chains --------------------------------------------------------------------------------------------

    def _found(self, edits: Edits, tools: BuildTools) -> Iterator[CaseCandidate]:
        """Yield candidates, alternating between numbers of hops and between sequences of relations."""
        lengths = [self._of_length(edits, hops, tools) for hops in self.config.hops]
        return (one for turn in zip_longest(*lengths) for one in turn if one)

    def _of_length(self, edits: Edits, hops: int, tools: BuildTools) -> Iterator[CaseCandidate]:
        waiting = [self._along(edits, path, tools) for path in edits.ground.paths(hops)]
        while waiting:
            still = []
            for candidates in waiting:
                one = next(candidates, None)
                if one:
                    yield one
                    still.append(candidates)
            waiting = still

    def _along(self, edits: Edits, path: tuple[str, ...], tools: BuildTools) -> Iterator[CaseCandidate]:
        heads = edits.ground.heads(path[0])
        start = edits.ground.number("start", *path) % len(heads) if heads else 0
        tried = 0
        for key in chain(heads[start:], heads[:start]):
            one = _candidate(edits, edits.ground.graph.entity(key), path, tools)
            tried += 1
            if one:
                tried = 0
                yield one
            elif tried == max(TURNS, len(heads) // 50):
                return

    # --- recall ---------------------------------------------------------------------------------------------

    def _recalled(
        self, some: Sequence[CaseCandidate], graph: KnowledgeGraph, tools: BuildTools
    ) -> Iterator[CaseCandidate]:
        facts = {fact: None for one in some for fact in _facts_to_recall(one)}
        known = dict(zip(facts, tools.recalls([_recall_probe(graph, fact) for fact in facts]), strict=True))
        for one in some:
            if all(known[fact] for fact in _facts_to_recall(one)):
                yield one
            else:
                tools.dropped(UNKNOWN)

    # --- records -------------------------------------------------------------------------------------------

    def _record(self, one: CaseCandidate, graph: KnowledgeGraph, tools: BuildTools, number: int) -> MquakeRecord | None:
        head = one.after[0].subject
        questions = wordings(graph, head, one.path, self.words)
        said = tuple(dict.fromkeys(tools.phrase(questions)))
        others = {hop.object.key: hop.object for hop in (*one.before, *one.after)}
        if any(_names_entity(text, entity, head) for text in said for entity in others.values()):
            tools.dropped(NAMES)
            return None
        edited = [hop for hop in one.after if hop.old]
        return MquakeRecord(
            case_id=number,
            requested_rewrite=tuple(_rewrite(graph, hop) for hop in edited),
            questions=said,
            answer=one.before[-1].object.label,
            answer_alias=one.before[-1].object.aliases,
            new_answer=one.after[-1].object.label,
            new_answer_alias=one.after[-1].object.aliases,
            single_hops=tuple(_hop(graph, hop) for hop in one.before),
            new_single_hops=tuple(_hop(graph, hop) for hop in one.after),
            orig=Chains(
                triples=_ids(one.before),
                triples_labeled=_labels(graph, one.before),
                new_triples=_ids(one.after),
                new_triples_labeled=_labels(graph, one.after),
                edit_triples=_ids(edited),
            ),
        )


def _candidate(edits: Edits, head: Entity, path: tuple[str, ...], tools: BuildTools) -> CaseCandidate | None:
    before = walk(edits, head, path, after=False)
    after = walk(edits, head, path, after=True) if before else None
    if not before or not after:
        tools.dropped(BROKEN)
        return None
    edited = sum(hop.old is not None for hop in after)
    if not edited:
        tools.dropped(SAME)
        return None
    old, new = before[-1].object, after[-1].object
    if _folded(old) & _folded(new):
        tools.dropped(ANSWER)
        return None
    things = {entity.key: entity for hop in (*before, *after) for entity in (hop.subject, hop.object)}
    if len({entity.label.casefold() for entity in things.values()}) < len(things):
        tools.dropped(LABELS)
        return None
    return CaseCandidate(path=path, before=before, after=after)


def _is_unambiguous(one: CaseCandidate, taken: dict[tuple[str, str], tuple[str, str]], tools: BuildTools) -> bool:
    """Return whether no other subject of the same name has another new object, which would be ambiguous."""
    said = {(hop.subject.label.casefold(), hop.relation): (hop.subject.key, hop.object.key) for hop in one.after}
    for name, (subject, object_) in said.items():
        other = taken.get(name, (subject, object_))
        if other[0] != subject and other[1] != object_:
            tools.dropped(CLASH)
            return False
    taken |= said
    return True


def _facts_to_recall(one: CaseCandidate) -> list[tuple[str, str]]:
    """Return the facts that the model must recall: the old chain, and the unedited facts of the new chain."""
    hops = (*one.before, *(hop for hop in one.after if not hop.old))
    return list(dict.fromkeys((hop.subject.key, hop.relation) for hop in hops))


def _recall_probe(graph: KnowledgeGraph, fact: tuple[str, str]) -> RecallProbe:
    return RecallProbe(
        question=graph.question(*fact),
        cloze=graph.cloze(*fact).prompt,
        gold=Gold(entities=graph.objects(*fact), require="any"),
    )


def _rewrite(graph: KnowledgeGraph, hop: ChainHop) -> MquakeRewrite:
    assert hop.old is not None
    return MquakeRewrite(
        prompt=graph.cloze(hop.subject, hop.relation).template,
        relation_id=hop.relation,
        target_new=WikidataEntity(str=hop.object.label, id=hop.object.key),
        target_true=WikidataEntity(str=hop.old.label, id=hop.old.key),
        subject=hop.subject.label,
        question=graph.question(hop.subject, hop.relation),
    )


def _hop(graph: KnowledgeGraph, hop: ChainHop) -> SingleHop:
    return SingleHop(
        question=graph.question(hop.subject, hop.relation),
        cloze=graph.cloze(hop.subject, hop.relation).prompt,
        answer=hop.object.label,
        answer_alias=hop.object.aliases,
    )


def _ids(hops: Sequence[ChainHop]) -> tuple[Triple, ...]:
    return tuple((hop.subject.key, hop.relation, hop.object.key) for hop in hops)


def _labels(graph: KnowledgeGraph, hops: Sequence[ChainHop]) -> tuple[Triple, ...]:
    return tuple((hop.subject.label, graph.relation(hop.relation).label, hop.object.label) for hop in hops)


def _folded(entity: Entity) -> set[str]:
    return {name.casefold() for name in entity.names}


def _names_entity(text: str, entity: Entity, head: Entity) -> bool:
    """Return whether the text names the entity outside the name of the head."""
    rest = text.replace(head.label, " ")
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", rest, re.IGNORECASE) for name in entity.names)
