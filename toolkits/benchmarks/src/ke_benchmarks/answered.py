"""Probes of benchmarks whose questions are answered by both models, and scored with teacher forcing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from attrs import evolve

from ke_core.plugin import EFFICACY, PARAPHRASE, Entity, Gold, Probe, Query, continued

T = TypeVar("T")
FORCED = "-teacher-forced"
"""Suffix of the aspects whose queries score the target after the question (metric ``wild``)."""
FORCED_ASPECTS = (EFFICACY + FORCED, PARAPHRASE + FORCED)
NO_DECOY = "unknown"
TRUTHS = (("Yes", "yes", "True", "true"), ("No", "no", "False", "false"))


def both_phases(aspect: str, queries: Sequence[Query], edits: tuple[str, ...], *, name: str = "") -> tuple[Probe, ...]:
    """Return a probe of ``queries`` for the unedited and the edited model; none without queries."""
    if not queries:
        return ()
    return (Probe(id=name or aspect, aspect=aspect, queries=tuple(queries), require="all", phase="both", edits=edits),)


def scored_query(query: Query, decoy: str) -> Query:
    """Return ``query`` with its target to be scored. A second continuation hides from editors which one is the target.

    Otherwise an editor could read the answer to a question from the request that scores it. Both models' scores are
    those of the first right answer after the edit.
    """
    target = query.gold.entities[0]
    return evolve(
        query,
        id=f"{query.id}{FORCED}",
        gold=Gold(entities=(target,)),
        pre_edit=None,
        edit=None,
        continuations=tuple(continued(query.texts[0], name) for name in (target.label, decoy)),
    )


def with_decoys(records: Iterable[T], target: Callable[[T], str]) -> Iterator[tuple[T, str]]:
    """Yield each record with a decoy: the target of the next record that has another one (of the first after the last).

    Only records that wait for another target are held in memory.
    """
    waiting: list[T] = []
    firsts: list[str] = []
    for record in records:
        own = target(record).strip()
        if not any(_same(own, first) for first in firsts) and len(firsts) < 2:
            firsts.append(own)
        if waiting and not _same(own, target(waiting[0])):
            yield from ((held, own) for held in waiting)
            waiting.clear()
        waiting.append(record)
    for held in waiting:
        yield held, next((first for first in firsts if not _same(first, target(held))), NO_DECOY)


def truth_names(label: str) -> tuple[str, ...]:
    """Return the spellings of a yes, no, true or false, because judges compare names with case; else none."""
    said = label.strip().casefold()
    return next((words for words in TRUTHS if said in {word.casefold() for word in words}), ())


def _same(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


def one_of(groups: Iterable[Iterable[str]]) -> Gold | None:
    """Return the gold of groups of names: each group is one object, and any object is right. None without names."""
    entities: dict[str, Entity] = {}
    for names in groups:
        distinct = list(dict.fromkeys(name.strip() for name in names if name.strip()))
        if distinct:
            entities.setdefault(distinct[0], Entity(label=distinct[0], aliases=tuple(distinct[1:])))
    return Gold(entities=tuple(entities.values()), require="any") if entities else None
