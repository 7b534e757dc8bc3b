"""Step 3 of CompKE's construction: fill the leaves of a structure and compute its sets before and after the edits.

The paper drops a case if its answer or an intermediate set is empty; this module checks that before and after the
edits. The other checks prevent wrong questions and questions that reveal their answer. Each reason is counted.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from ke_benchmarks.graph import KnowledgeGraph, contains_name
from ke_plugin_compke.algebra import Keys, Place, SetStep, World, evaluate, places
from ke_plugin_compke.edits import Counterfactual
from ke_plugin_compke.forms import QuestionStructure
from ke_plugin_compke.sampling import GraphSample, Names

MOST_EDITS = 5  # as published
EAGER = 8  # subjects tried to find an edited one
MOST_OBJECTS = 12  # a longer list makes an unreadable question


class InvalidLeaves(Exception):
    """The reason why these leaves are not a case."""


@frozen(kw_only=True)
class StructureCandidate:
    """A structure with its leaves, the sets of its steps before and after the edits, and the edited facts."""

    form: QuestionStructure
    names: Names
    steps: tuple[SetStep, ...]
    before: tuple[Keys, ...]
    after: tuple[Keys, ...]
    world: Counterfactual
    edited: tuple[Place, ...]

    @property
    def facts_before(self) -> tuple[Place, ...]:
        """Return the facts that the steps use before the edits. Members without a fact contribute nothing."""
        return _known(places(self.steps, self.before), self.world.before)

    @property
    def facts_after(self) -> tuple[Place, ...]:
        """Return the facts that the steps use after the edits."""
        return _known(places(self.steps, self.after), self.world.after)


@frozen(kw_only=True)
class LeafSampler:
    """Samples the leaves of structures. ``closed``: a fact that is not in the graph is false, otherwise unknown."""

    sampling: GraphSample
    closed: bool

    def draw(
        self, form: QuestionStructure, relations: Names, world: Counterfactual, draw: random.Random
    ) -> StructureCandidate:
        """Return one candidate. Raises InvalidLeaves."""
        names = dict(relations)
        names["a"] = self._first(names["r1"], world, draw)
        if any("b" in step.inputs for step in form.steps):
            names["b"] = self._other(form, names, world, draw)
            if names["a"] == names["b"]:
                raise InvalidLeaves("the same entity occurs twice")
        if any(step.value for step in form.steps):
            names["v"] = self._value(form, names, world, draw)
        steps = form.filled(names)
        before, after = evaluate(steps, world.before), evaluate(steps, world.after)
        for reason in self._wrong(steps, names, before, after, world):
            raise InvalidLeaves(reason)
        edited = tuple(place for place in places(steps, after) if world.after(*place) != world.before(*place))
        if not 1 <= len(edited) <= MOST_EDITS:
            raise InvalidLeaves("no edit or too many")
        return StructureCandidate(
            form=form, names=names, steps=steps, before=before, after=after, world=world, edited=edited
        )

    def _first(self, relation: str, world: Counterfactual, draw: random.Random) -> str:
        """Return the first leaf. Every other time it prefers one with an edited fact, because few questions change
        otherwise.
        """
        tried = draw.choices(self.sampling.subjects[relation], k=draw.choice((1, EAGER)))
        edited = (key for key in tried if world.after(key, relation) != world.before(key, relation))
        return next(edited, tried[0])

    def _other(self, form: QuestionStructure, names: Names, world: Counterfactual, draw: random.Random) -> str:
        """Return the second leaf: any for a union, otherwise one that shares an object with the first."""
        relation = names["r2"]
        if form.name == "2":
            return draw.choice(self.sampling.subjects[relation])
        key = draw.choice(draw.choice([world.before, world.after])(names["a"], names["r1"]))
        if form.name == "5":
            key = self._holder(names["r3"], key, draw)
        return self._holder(relation, key, draw)

    def _holder(self, relation: str, key: str, draw: random.Random) -> str:
        graph, floor = self.sampling.graph, self.sampling.floor[relation]
        found = [entity.key for entity in graph.holders(relation, key) if graph.popularity(entity) >= floor]
        if not found:
            raise InvalidLeaves("no popular entity shares a member with the first")
        return draw.choice(found)

    def _value(self, form: QuestionStructure, names: Names, world: Counterfactual, draw: random.Random) -> str:
        """Return a value that some member has, before or after the edits."""
        steps, relation = form.steps[-1], names[form.steps[-1].relation]
        truth: World = draw.choice([world.before, world.after])
        leading = form.filled({**names, "v": "v"})[: steps.inputs[0]] if isinstance(steps.inputs[0], int) else ()
        values = sorted({value for key in evaluate(leading, truth)[-1] for value in truth(key, relation)})
        if not values:
            raise InvalidLeaves("no value to filter by")
        return draw.choice(values)

    def _wrong(
        self,
        steps: Sequence[SetStep],
        names: Names,
        before: Sequence[Keys],
        after: Sequence[Keys],
        world: Counterfactual,
    ) -> Iterator[str]:
        """Yield the reasons why the candidate is not a case, cheap checks first."""
        if not all((*before, *after)):
            yield "a set is empty"
        if set(before[-1]) == set(after[-1]):
            yield "the edits do not change the answer"
        if max(map(len, (*before, *after))) > MOST_OBJECTS:
            yield "a set is too large"
        if _selects_all(steps, before) and _selects_all(steps, after):
            yield "the condition excludes no member"
        if not self.closed and (_unknown(steps, before, world.before) or _unknown(steps, after, world.after)):
            yield "a fact is unknown"
        heads = {names[name] for name in ("a", "b") if name in names}
        if _has_cycle(steps, before, heads) or _has_cycle(steps, after, heads):
            yield "a step leads back to an earlier entity"
        if _relates(names, before, after):
            yield "an edit relates two entities that the question names"
        named = heads | {names[name] for name in ("v",) if name in names}
        answers = dict.fromkeys((*before[-1], *after[-1]))
        graph = self.sampling.graph
        entities = [graph.entity(key) for key in answers]
        if named & set(answers) or any(contains_name(graph.entity(key).label, entities) for key in named):
            yield "the question names an answer"
        if _share_a_name(graph, answers):
            yield "two answers share a name"


def _known(found: Sequence[Place], truth: World) -> tuple[Place, ...]:
    return tuple(place for place in found if truth(*place))


def _selects_all(steps: Sequence[SetStep], made: Sequence[Keys]) -> bool:
    """Return whether every member meets the condition: dropping it would give the same answer."""
    last = steps[-1]
    given = last.inputs[0]
    return last.op.startswith("filter") and isinstance(given, int) and len(made[-1]) == len(made[given - 1]) > 1


def _unknown(steps: Sequence[SetStep], made: Sequence[Keys], truth: World) -> bool:
    return any(not truth(*place) for place in places(steps, made))


def _has_cycle(steps: Sequence[SetStep], made: Sequence[Keys], named: set[str]) -> bool:
    """Return whether a mapping leads back to an earlier entity, as in the capital of a country of a capital."""
    for number, step in enumerate(steps, start=1):
        if step.op == "map" and set(made[number - 1]) & {*named, *_way(steps, made, step)}:
            return True
    return False


def _way(steps: Sequence[SetStep], made: Sequence[Keys], step: SetStep) -> Iterator[str]:
    for given in step.inputs:
        if isinstance(given, int):
            yield from made[given - 1]
            yield from _way(steps, made, steps[given - 1])
        else:
            yield given


def _share_a_name(graph: KnowledgeGraph, answers: Iterable[str]) -> bool:
    """Return whether two of the answers share a name."""
    seen: dict[str, str] = {}
    return any(seen.setdefault(name.casefold(), key) != key for key in answers for name in graph.entity(key).names)


def _relates(names: Names, before: Sequence[Keys], after: Sequence[Keys]) -> bool:
    """Return whether one named entity becomes, or stops being, an object of the other.

    Many one-to-many relations are symmetric (neighbors, siblings): after an edit "Peru borders Italy", it is undefined
    whether Italy borders Peru, and the question depends on that too.
    """
    if "b" not in names:
        return False
    pairs = ((names["b"], 0), (names["a"], 1))
    return any((key in before[at]) != (key in after[at]) for key, at in pairs)
