"""Errors that stand in the file whatever is edited: edits that contradict one another, and cases that occur twice."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from ke_core.audit.bank import Bank, Objects, Rule, edits_with_facts, objects_of
from ke_core.data.facts import Fact
from ke_core.data.masking import Place
from ke_core.data.queries import Case


@frozen(kw_only=True)
class Conflict:
    """One fact that cases rewrite to different objects. ``targets``: the new facts, each with its cases' ids."""

    targets: tuple[tuple[Fact, tuple[str, ...]], ...]

    @property
    def majority(self) -> Fact:
        """The target of most edits; of equals the one that stands first in the file."""
        return max(self.targets, key=lambda target: len(target[1]))[0]

    @property
    def cases(self) -> tuple[str, ...]:
        """Every case in it, in the order of their first target."""
        return tuple(dict.fromkeys(case for _fact, cases in self.targets for case in cases))


def conflicts(cases: Iterable[Case], rule: Rule = "question") -> tuple[Conflict, ...]:
    """Facts with several targets: the same question, or the same ids with the rule ``id``."""
    key = Bank.of((), "id" if rule == "id" else "question").key
    found: dict[Place, dict[Objects, list[tuple[str, Fact]]]] = {}
    for case in cases:
        for _edit, fact in edits_with_facts(case):
            found.setdefault(key(fact), {}).setdefault(objects_of(fact), []).append((case.id, fact))
    return tuple(
        Conflict(targets=tuple((held[0][1], tuple(case for case, _fact in held)) for held in by_target.values()))
        for by_target in found.values()
        if len(by_target) > 1
    )


def duplicates(cases: Iterable[Case]) -> tuple[tuple[str, ...], ...]:
    """Groups of ids of cases that are one and the same: equal edits, chains and answers, whatever their wording."""
    found: dict[object, list[str]] = {}
    for case in cases:
        found.setdefault(identity(case), []).append(case.id)
    return tuple(tuple(ids) for ids in found.values() if len(ids) > 1)


def identity(case: Case) -> object:
    """What makes two cases the same. Where no chain is known, the wordings of their questions tell them apart."""
    paths = tuple(tuple(map(_triple, path)) for path in (case.facts_before, case.facts_after))
    queries = [(probe.aspect, query) for probe in case.probes for query in probe.queries]
    answers = frozenset((aspect, frozenset(entity.key for entity in query.gold.entities)) for aspect, query in queries)
    texts = frozenset() if any(paths) else frozenset(text for _aspect, query in queries for text in query.texts)
    return frozenset(edit.id for edit in case.edits), paths, answers, texts


def named(fact: Fact) -> str:
    """The labels of a fact's objects."""
    return ", ".join(entity.label for entity in fact.objects) or "nothing"


def _triple(fact: Fact) -> tuple[str, str, Objects]:
    return fact.subject.key, fact.relation.key, objects_of(fact)
