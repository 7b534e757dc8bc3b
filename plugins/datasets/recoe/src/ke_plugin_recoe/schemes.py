"""The six reasoning schemes over a counterfactual world (table 1 of the paper): a generator of records for each."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

from attrs import frozen

from ke_benchmarks.graph import KnowledgeGraph
from ke_plugin_recoe.records import DIRECT, UNCHANGED, WORDS, OpenIETriple, RecoeRecord, Scheme, StatedFact
from ke_plugin_recoe.words import SLOT, RecoeWording, a, format_number
from ke_plugin_recoe.world import ObjectCounts, RecoeWorld, SwappedNumbers, interleaved

T = TypeVar("T")
ROUNDS = 6  # records of one scheme from one pair of entities, each with another third entity
FORMS = ["entity", "yes-no", "bound", "entity-bound"]
"""Forms of comparisons; the last two have a threshold."""
Aliases = tuple[str, ...]
Answer = tuple[str, Aliases]
Groups = dict[str, tuple[StatedFact, ...]]
YES: Answer = ("yes", ("Yes",))
NO: Answer = ("no", ("No",))


@frozen(kw_only=True, slots=False)
class Schemes:
    """Yields every record of a world, scheme by scheme."""

    graph: KnowledgeGraph
    wording: RecoeWording
    world: RecoeWorld
    margin: float
    seed: int

    def records(self, scheme: Scheme) -> Iterator[RecoeRecord]:
        """Return the records of a scheme, without duplicates, starting with those that share no fact."""
        draw = random.Random(f"{self.seed}/{scheme}")  # noqa: S311  a choice, not a secret
        made: Callable[[random.Random], Iterator[RecoeRecord]] = getattr(self, scheme)
        return made(draw)

    # --- group 1: exchanged numbers ----------------------------------------------------------------------------

    def superlative(self, draw: random.Random) -> Iterator[RecoeRecord]:
        """Yield questions for the extreme of three: one keeps its number, the other two exchange theirs."""
        for swaps, (high, low), third in self._triads(draw):
            words, value = self.wording.words(swaps.relation), swaps.numbers
            largest = value[third] < value[high] and (value[third] > value[low] or draw.random() < 1 / 2)
            if not largest and value[third] < value[low]:
                continue
            extreme, (old, new) = (words.most, (high, low)) if largest else (words.least, (low, high))
            names = self._listed(draw, (high, low, third), swaps.relation)
            question = f"Which of {names} has the {extreme} {self.wording.noun(swaps.relation)}?"
            yield self._swapped("superlative", question, self._named(old), self._named(new), (swaps, old, new, third))

    def comparative(self, draw: random.Random) -> Iterator[RecoeRecord]:
        """Yield comparisons of two entities, or with a threshold between them. One question for each pair."""
        for swaps, (high, low) in self._pairs(draw):
            first, second = draw.sample((high, low), 2)
            words, which = self.wording.words(swaps.relation), self.wording.which(swaps.relation)
            alone, says = self.wording.subject(first, swaps.relation), self.graph.mention
            noun = self.wording.noun(swaps.relation)
            extreme, (old, new) = draw.choice(((words.more, (high, low)), (words.less, (low, high))))
            bound = between(swaps.numbers[low], swaps.numbers[high])
            above = f"{a(noun)} of {self.wording.above(swaps.relation, bound)}"
            match draw.choice(FORMS if bound else FORMS[:2]):
                case "entity":
                    question = f"{which} has the {extreme} {noun}, {says(first)} or {says(second)}?"
                case "yes-no":
                    question = f"Does {alone} have {a(extreme)} {noun} than {says(second)}?"
                    yes, old, new = first == old, first, second
                case "bound":
                    question = f"Does {alone} have {above}?"
                    yes, old, new = first == high, first, second
                case _:
                    question = f"{which} has {above}, {says(first)} or {says(second)}?"
                    old, new = high, low
            answers = self._named(old), self._named(new)
            if question.startswith("Does"):
                answers = (YES, NO) if yes else (NO, YES)
            yield self._swapped("comparative", question, *answers, (swaps, old, new, ""))

    def sorting(self, draw: random.Random) -> Iterator[RecoeRecord]:
        """Yield orders of three: one keeps its number, the other two exchange positions."""
        for swaps, (high, low), third in self._triads(draw):
            words = self.wording.words(swaps.relation)
            order = sorted((high, low, third), key=lambda key: swaps.numbers[key])
            ends = words.least, words.most
            if draw.random() < 1 / 2:
                order, ends = order[::-1], ends[::-1]
            exchange = {high: low, low: high, third: third}
            question = (
                f"What is the order of {self._listed(draw, (high, low, third), swaps.relation)} by "
                f"{self.wording.noun(swaps.relation)}, from the {ends[0]} to the {ends[1]}?"
            )
            old, new = self._list(order), self._list([exchange[key] for key in order])
            yield self._swapped("sorting", question, old, new, (swaps, high, low, third))

    # --- group 2: changed counts ------------------------------------------------------------------------------

    def counting(self, draw: random.Random) -> Iterator[RecoeRecord]:
        """Yield questions for the count of one entity."""
        for counts, key in interleaved(
            [[(one, key) for key in _mixed(draw, one.altered)] for one in self.world.counts]
        ):
            old, new = counts.before[key], counts.after[key]
            yield RecoeRecord(
                scheme="counting",
                question=self.wording.how_many(key, counts.relation),
                **_answers(_number(old), _number(new)),
                facts_per_choice={"choice_1_facts": (self._count(counts, key, old),)},
                counterfactuals_per_choice={
                    "choice_1_counterfactuals": (self._count(counts, key, new),),
                    UNCHANGED: (),
                },
            )

    def aggregation(self, draw: random.Random) -> Iterator[RecoeRecord]:
        """Yield sums of two counts of one relation."""
        for counts, first, second in self._two(draw):
            sums = [held[first] + held[second] for held in (counts.before, counts.after)]
            if sums[0] != sums[1]:
                many = self.wording.many(first, counts.relation), self.wording.many(second, counts.relation)
                total = f"number of {many[0]} plus the number of {many[1]}"
                yield self._composed("aggregation", total, (counts, first, second), (sums[0], sums[1]))

    def subtraction(self, draw: random.Random) -> Iterator[RecoeRecord]:
        """Yield differences of two counts of one relation, at least one."""
        for counts, one, other in self._two(draw):
            first, second = (one, other) if counts.before[one] > counts.before[other] else (other, one)
            gaps = [held[first] - held[second] for held in (counts.before, counts.after)]
            if gaps[0] != gaps[1] and min(gaps) > 0:
                many = self.wording.many(first, counts.relation), self.wording.many(second, counts.relation)
                total = f"number of {many[0]} minus the number of {many[1]}"
                yield self._composed("subtraction", total, (counts, first, second), (gaps[0], gaps[1]))

    # --- sampling -------------------------------------------------------------------------------------------

    def _pairs(self, draw: random.Random) -> Iterator[tuple[SwappedNumbers, tuple[str, str]]]:
        return interleaved([[(one, pair) for pair in _mixed(draw, one.pairs)] for one in self.world.swaps])

    def _triads(self, draw: random.Random) -> Iterator[tuple[SwappedNumbers, tuple[str, str], str]]:
        """Yield each pair with a third entity of its type that keeps its clearly different number."""
        seen: set[tuple[str, tuple[str, str], str]] = set()
        for _round in range(ROUNDS):
            for swaps, pair in self._pairs(draw):
                kind = self.graph.kind(pair[0])
                near = [
                    key
                    for key in swaps.rest
                    if self.graph.kind(key) == kind
                    and (swaps.relation, pair, key) not in seen
                    and all(self._differ(swaps.numbers[key], swaps.numbers[one]) for one in pair)
                ]
                if near:
                    third = draw.choice(near)
                    seen.add((swaps.relation, pair, third))
                    yield swaps, pair, third

    def _two(self, draw: random.Random) -> Iterator[tuple[ObjectCounts, str, str]]:
        """Yield each entity with a changed count, with another of its type."""
        seen: set[tuple[str, frozenset[str]]] = set()
        for _round in range(ROUNDS):
            for counts, key in interleaved(
                [[(one, key) for key in _mixed(draw, one.altered)] for one in self.world.counts]
            ):
                others = [k for k in counts.before if k != key and self.graph.kind(k) == self.graph.kind(key)]
                other = draw.choice(others) if others else key
                place = counts.relation, frozenset((key, other))
                if other != key and place not in seen:
                    seen.add(place)
                    yield counts, key, other

    def _differ(self, one: float, other: float) -> bool:
        return max(one, other) >= self.margin * min(one, other)

    # --- parts of a record ------------------------------------------------------------------------------------

    def _swapped(
        self, scheme: Scheme, question: str, old: Answer, new: Answer, things: tuple[SwappedNumbers, str, str, str]
    ) -> RecoeRecord:
        """Return a record. ``things``: the first and the second choice, and one that stays."""
        swaps, first, second, third = things
        numbers = swaps.numbers

        def stated(key: str, value: float) -> tuple[StatedFact, ...]:
            return (self._stated(key, swaps.relation, format_number(value)),)

        return RecoeRecord(
            scheme=scheme,
            question=question,
            **_answers(old, new),
            facts_per_choice={
                "choice_1_facts": stated(first, numbers[first]),
                "choice_2_facts": stated(second, numbers[second]),
            },
            counterfactuals_per_choice={
                "choice_1_counterfactuals": stated(first, numbers[second]),
                "choice_2_counterfactuals": stated(second, numbers[first]),
                UNCHANGED: stated(third, numbers[third]) if third else (),
            },
        )

    def _composed(
        self, scheme: Scheme, total: str, things: tuple[ObjectCounts, str, str], values: tuple[int, int]
    ) -> RecoeRecord:
        """Return a record: the counts are indirect facts; the direct fact states the answer and is never edited."""
        counts, first, second = things
        groups: tuple[Groups, Groups] = {}, {UNCHANGED: ()}
        for at, key in enumerate((first, second), start=1):
            old, new = counts.before[key], counts.after[key]
            groups[0][f"choice_{at}_facts"] = (self._count(counts, key, old),)
            changed = self._count(counts, key, new)
            if old == new:
                groups[1][UNCHANGED] = (*groups[1][UNCHANGED], changed)
            else:
                groups[1][f"choice_{at}_counterfactuals"] = (changed,)
        for group, name, value in zip(groups, DIRECT, values, strict=True):
            sentence = f"The {total} is {value}."
            group[name] = (_fact(sentence, OpenIETriple(subject=f"The {total}", relation="is", object=str(value))),)
        return RecoeRecord(
            scheme=scheme,
            question=f"What is the {total}?",
            **_answers(_number(values[0]), _number(values[1])),
            facts_per_choice=groups[0],
            counterfactuals_per_choice=groups[1],
        )

    def _stated(self, key: str, relation: str, value: str) -> StatedFact:
        label = self.graph.relation(relation).label
        triple = OpenIETriple(subject=self.graph.entity(key).label, relation=label, object=value)
        return _fact(self.wording.number(key, relation, value), triple)

    def _count(self, counts: ObjectCounts, key: str, value: int) -> StatedFact:
        relation = self.wording.counted(counts.relation)
        triple = OpenIETriple(subject=self.graph.entity(key).label, relation=relation, object=str(value))
        return _fact(self.wording.count(key, counts.relation, value), triple)

    def _listed(self, draw: random.Random, keys: Sequence[str], relation: str) -> str:
        """Return their names in a random order, which does not reveal the answer."""
        return self.wording.listed(draw.sample(keys, len(keys)), relation)

    def _named(self, key: str) -> Answer:
        return self.graph.entity(key).label, self._aliases(key)

    def _list(self, keys: Sequence[str]) -> Answer:
        labels = [self.graph.entity(key).label for key in keys]
        aliases = [self._aliases(key) for key in keys]
        lists = [
            [own[at] if at < len(own) else label for label, own in zip(labels, aliases, strict=True)]
            for at in range(max(map(len, aliases)))
        ]
        return ", ".join(labels), tuple(", ".join(names) for names in lists)

    def _aliases(self, key: str) -> Aliases:
        """Return the aliases without those of other entities and those that cannot occur in a list."""
        own = self.graph.entity(key)
        return tuple(name for name in own.aliases if name.casefold() not in self._labels and not set(name) & set(",;"))

    @cached_property
    def _labels(self) -> frozenset[str]:
        keys = {key for one in self.world.swaps for key in one.numbers}
        keys |= {key for one in self.world.counts for key in one.before}
        return frozenset(self.graph.entity(key).label.casefold() for key in keys)


def between(low: float, high: float) -> str:
    """Return a round number between two numbers, near their geometric mean, or an empty text."""
    middle = math.sqrt(low * high)
    for digits in (1, 2):
        unit = 10.0 ** (math.floor(math.log10(middle)) + 1 - digits)
        bound = round(middle / unit) * unit
        if low < bound < high:
            return format_number(round(bound, 9))
    return ""


def _mixed(draw: random.Random, these: Sequence[T]) -> list[T]:
    return draw.sample(these, len(these))


def _fact(sentence: str, triple: OpenIETriple) -> StatedFact:
    cloze = sentence.removesuffix(f" {triple.object}.").replace(triple.subject, SLOT, 1)
    return StatedFact(fact=sentence, atomic_facts=(sentence,), atomic_triples=(str(triple),), atomic_clozes=(cloze,))


def _number(value: int) -> Answer:
    return str(value), (WORDS[value],) if value < len(WORDS) else ()


def _answers(old: Answer, new: Answer) -> dict[str, Any]:
    return {
        "answer": old[0],
        "counterfactual_answer": new[0],
        "answer_alias": old[1],
        "counterfactual_answer_alias": new[1],
    }
