"""CompKE's construction (section 4 of the paper): questions, counterfactual edits, conflict filter, wording."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from ke_benchmarks.graph import BuildTools, KnowledgeGraph, RecallProbe
from ke_benchmarks.graph import Record as JsonRecord
from ke_core.plugin import BadData, Gold
from ke_plugin_compke import CompkeBuild
from ke_plugin_compke.algebra import Keys, Place
from ke_plugin_compke.candidates import InvalidLeaves, LeafSampler, StructureCandidate
from ke_plugin_compke.edits import Counterfactual
from ke_plugin_compke.forms import BY_NAME, FORMS, QuestionStructure
from ke_plugin_compke.records import CompkeRecord
from ke_plugin_compke.relations import Templates
from ke_plugin_compke.sampling import GraphSample
from ke_plugin_compke.words import QuestionWriter
from ke_plugin_compke.writing import RecordWriter

TRIES = 1000  # samples in a row without a new case after which a structure is exhausted
SUBJECTS = 1000  # minimum for each relation
SPARE = 2  # candidates for each requested case if the conflict filter is used


@frozen(kw_only=True)
class CompkeBuilder:
    """Builder of CompKE cases. ``templates``: phrases of relations that replace those of the graph."""

    config: CompkeBuild
    templates: Templates

    def records(self, graph: KnowledgeGraph, tools: BuildTools) -> Iterator[JsonRecord]:
        """Yield up to ``tools.cases`` records as JSON values, ordered so that the first ones are representative.

        Raises BadData if the graph has no one-to-many relation or not enough facts for a single case.
        """
        return (record.json() for record in self.built(graph, tools))

    def built(self, graph: KnowledgeGraph, tools: BuildTools) -> Iterator[CompkeRecord]:
        """Yield the records as objects."""
        work = BuildState.of(graph, tools, self)
        wanted = tools.cases * (SPARE if self.config.edits == "case" else 1)
        found = work.candidates(wanted)
        if self.config.edits == "case":
            found = _consistent(found, tools)
        if not found:
            raise BadData(
                f"{graph.name} has no usable question about sets of objects",
                hint="it needs a relation with several objects per subject (functional: false), with cloze and "
                "question",
            )
        random.Random(f"{tools.seed}/order").shuffle(found)  # noqa: S311  a choice, not a secret
        for number, candidate in enumerate(found[: tools.cases], start=1):
            yield work.writing.record(number, candidate, tools.phrase)


@frozen(kw_only=True, slots=False)
class BuildState:
    """State of one build: where candidates are sampled from, and the cases so far."""

    leaves: LeafSampler
    writing: RecordWriter
    world: Counterfactual
    tools: BuildTools
    config: CompkeBuild
    known: dict[Place, bool]
    """Facts that were already checked for recall."""
    rested: set[tuple[object, ...]]
    """Facts and answers of existing cases: two structures with the same ones would be duplicates for an audit."""

    @classmethod
    def of(cls, graph: KnowledgeGraph, tools: BuildTools, builder: CompkeBuilder) -> BuildState:
        """Return the initial state for that graph."""
        config = builder.config
        words = QuestionWriter(graph=graph, templates=builder.templates)
        sampling = GraphSample(
            graph=graph,
            relations=graph.relations(config.relations),
            knows=words.knows,
            popular=config.popular,
            size=max(SUBJECTS, 4 * tools.cases),
            seed=tools.seed,
        )
        world = Counterfactual(graph=graph, pools=sampling.pools, share=config.share, seed=tools.seed)
        return cls(
            leaves=LeafSampler(sampling=sampling, closed=config.closed),
            writing=RecordWriter(graph=graph, words=words),
            world=world,
            tools=tools,
            config=config,
            known={},
            rested=set(),
        )

    def candidates(self, wanted: int) -> list[StructureCandidate]:
        """Return the requested number of candidates, by structure. Other structures replace exhausted ones."""
        feeds = {form.name: self._new_candidates(form) for form in FORMS}
        total = sum(form.share for form in FORMS)
        found: list[StructureCandidate] = []
        for form in FORMS:
            found += _next_items(feeds[form.name], round(wanted * form.share / total))
        while len(found) < wanted and feeds:
            for name in sorted(feeds, key=lambda name: -BY_NAME[name].share):
                more = _next_items(feeds[name], 1) if len(found) < wanted else ()
                found += more
                if not more and len(found) < wanted:
                    del feeds[name]
        return found[:wanted]

    def _new_candidates(self, form: QuestionStructure) -> Iterator[StructureCandidate]:
        """Yield new candidates of one structure until it is exhausted."""
        relations = self.leaves.sampling.assignments(form)
        draw = random.Random(f"{self.tools.seed}/{form.name}")  # noqa: S311  a choice, not a secret
        seen: set[tuple[object, ...]] = set()
        own = self.config.edits == "case"
        tries = 0
        while relations and tries < TRIES:
            tries += 1
            world = evolve(self.world, salt=f"{form.name}/{len(seen)}/{tries}") if own else self.world
            try:
                found = self.leaves.draw(form, draw.choice(relations), world, draw)
            except InvalidLeaves as reason:
                self.tools.dropped(str(reason))
                continue
            about = frozenset(
                (found.names[name], found.names[r]) for name, r in (("a", "r1"), ("b", "r2")) if name in found.names
            )
            place = (about, found.names.get("r3"), found.names.get("v"))
            if place in seen:
                continue
            seen.add(place)
            rests = found.facts_after, found.before[-1], found.after[-1], found.edited
            if rests in self.rested:
                self.tools.dropped("another case depends on the same facts and answers")
                continue
            self.rested.add(rests)
            if not self._recalled(found):
                self.tools.dropped("the model does not recall a fact")
                continue
            tries = 0
            yield found

    def _recalled(self, found: StructureCandidate) -> bool:
        """Return whether the model recalls every fact before the edits (step 2 of the construction)."""
        new = [place for place in found.facts_before if place not in self.known]
        if new:
            asked = [self._asked(place, self.world.before(*place)) for place in new]
            self.known.update(zip(new, self.tools.recalls(asked), strict=True))
        return all(self.known[place] for place in found.facts_before)

    def _asked(self, place: Place, objects: Keys) -> RecallProbe:
        words, graph = self.writing.words, self.writing.graph
        gold = Gold(entities=tuple(graph.entity(key) for key in objects))
        return RecallProbe(question=words.question(*place), cloze=words.cloze(*place), gold=gold)


def _next_items(feed: Iterator[StructureCandidate], number: int) -> list[StructureCandidate]:
    return [found for _at, found in zip(range(number), feed, strict=False)]


def _consistent(found: Sequence[StructureCandidate], tools: BuildTools) -> list[StructureCandidate]:
    """Apply step 5: every (s, r) has one O' in the whole dataset."""
    changes: dict[int, Mapping[Place, frozenset[str]]] = {
        number: {place: frozenset(candidate.world.after(*place)) for place in candidate.edited}
        for number, candidate in enumerate(found)
    }
    kept = keep_consistent(changes, seed=tools.seed)
    for _gone in range(len(found) - len(kept)):
        tools.dropped("its edits conflict with another case's")
    return [found[number] for number in kept]


Changes = Mapping[Place, frozenset[str]]
"""The edits of a case: subject and relation to the new objects, by key."""


def keep_consistent(cases: Mapping[int, Changes], *, seed: int) -> tuple[int, ...]:
    """Return the cases to keep, in order: those without a conflict, and one of each group of conflicting cases."""
    groups: dict[int, list[int]] = {}
    root = _roots(cases)
    for case in cases:
        groups.setdefault(root[case], []).append(case)
    draw = random.Random(seed)  # noqa: S311  a choice, not a secret
    chosen = {draw.choice(group) for group in groups.values()}
    return tuple(case for case in cases if case in chosen)


def _roots(cases: Mapping[int, Changes]) -> dict[int, int]:
    """Return the first case of each case's component."""
    about: dict[Place, dict[frozenset[str], list[int]]] = {}
    for case, changes in cases.items():
        for place, objects in changes.items():
            about.setdefault(place, {}).setdefault(objects, []).append(case)
    parent = {case: case for case in cases}
    for by_objects in about.values():
        if len(by_objects) > 1:  # all cases of one value conflict with all cases of another, so they form one component
            _join(parent, (case for found in by_objects.values() for case in found))
    return {case: _find(parent, case) for case in cases}


def _join(parent: dict[int, int], cases: Iterable[int]) -> None:
    first, *rest = cases
    for other in rest:
        parent[_find(parent, other)] = _find(parent, first)


def _find(parent: dict[int, int], case: int) -> int:
    while parent[case] != case:
        parent[case] = parent[parent[case]]  # path halving
        case = parent[case]
    return case
