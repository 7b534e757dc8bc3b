"""Sample what questions are about: relations that fit a structure, and popular subjects and objects.

Steps 1 and 2 of CompKE's construction. The paper ranks facts by page views and by the number of sourced statements of
an entity. A graph has neither, so popularity is the number of facts of an entity.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from attrs import frozen

from ke_benchmarks.graph import KnowledgeGraph, Link
from ke_benchmarks.graph.base import LITERALS
from ke_plugin_compke.algebra import Keys
from ke_plugin_compke.forms import QuestionStructure

Names = Mapping[str, str]


@frozen(kw_only=True, slots=False)
class GraphSample:
    """The sampled part of a graph, with at most ``size`` subjects for each relation.

    ``relations``: relations to use, all if empty. ``knows``: whether a relation has phrases. ``popular``: fraction of
    the subjects and objects that is kept, the most popular first.
    """

    graph: KnowledgeGraph
    relations: tuple[str, ...]
    knows: Callable[[str], bool]
    popular: float
    size: int
    seed: int

    @cached_property
    def links(self) -> Mapping[str, Link]:
        """The relations for sets. Of a relation and its inverse, only the first by name is used.

        An edit of one would also change the other, which is not edited.
        """
        return {
            name: link
            for name, link in sorted(self.graph.links.items())
            if (not self.relations or name in self.relations)
            and link.object not in LITERALS
            and not (link.inverse in self.graph.links and (link.inverse or "") < name)
            and self.knows(name)
        }

    @cached_property
    def subjects(self) -> Mapping[str, Keys]:
        """Relation to its most popular subjects, by key."""
        return {name: self._best(self._some(name)) for name in self.links}

    @cached_property
    def pools(self) -> Mapping[str, Keys]:
        """Relation to the most popular objects of those subjects: the possible new objects."""
        return {
            name: self._best(
                dict.fromkeys(found.key for key in self.subjects[name] for found in self.graph.objects(key, name))
            )
            for name in self.links
        }

    @cached_property
    def floor(self) -> Mapping[str, int]:
        """Relation to the popularity of its least popular subject that is kept."""
        return {
            name: min((self.graph.popularity(key) for key in keys), default=0) for name, keys in self.subjects.items()
        }

    def assignments(self, form: QuestionStructure) -> tuple[Names, ...]:
        """Return every choice of relations that fits the structure: combined sets have one type and can have members.

        The relations of intersections, unions and filters must be one-to-many.
        """
        fits = FITS.get(form.name, _pair)
        found = []
        for first in self.links:
            for second in self.links if len(form.relations) > 1 else ("",):
                for third in self.links if len(form.relations) > 2 else ("",):
                    names = dict(zip(("r1", "r2", "r3"), (first, second, third), strict=True))
                    if fits(*(self.links[name] for name in names.values() if name)):
                        found.append(names)
        return tuple(found)

    def _some(self, relation: str) -> Keys:
        """Return a random sample of ``size`` subjects (reservoir sampling: Vitter 1985, algorithm R)."""
        draw, kept = random.Random(f"{self.seed}/{relation}"), list[str]()  # noqa: S311  a choice, not a secret
        for number, entity in enumerate(self.graph.subjects(relation)):
            if number < self.size:
                kept.append(entity.key)
            elif (place := draw.randrange(number + 1)) < self.size:
                kept[place] = entity.key
        return tuple(sorted(kept))

    def _best(self, keys: Iterable[str]) -> Keys:
        ranked = sorted(keys, key=lambda key: (-self.graph.popularity(key), key))
        return tuple(sorted(ranked[: max(1, round(self.popular * len(ranked)))]))


def _one(first: Link) -> bool:
    return not first.functional


def _two(first: Link, second: Link) -> bool:
    return second.subject == first.object and first != second and not (first.functional and second.functional)


def _pair(first: Link, second: Link) -> bool:
    return not first.functional and not second.functional and first.object == second.object


def _selects(first: Link, second: Link) -> bool:
    return not first.functional and second.subject == first.object and first != second


def _through(first: Link, second: Link, third: Link) -> bool:
    chained = third.subject == second.object and second != third
    return not first.functional and not third.functional and first.object == third.object and chained


def _after(first: Link, second: Link, third: Link) -> bool:
    return _pair(first, second) and third.subject == first.object and third not in (first, second)


FITS: Mapping[str, Callable[..., bool]] = {
    "one-step": _one,
    "two-step": _two,
    "3": _selects,
    "4": _selects,
    "5": _through,
    "6": _after,
    "7": _after,
}
