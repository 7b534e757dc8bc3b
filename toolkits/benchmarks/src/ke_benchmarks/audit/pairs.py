"""Errors that do not depend on the edited cases: contradicting edits, and duplicate cases."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from ke_benchmarks.audit.bank import Objects, Rule, by_id, by_question, edits_with_facts, objects_of
from ke_core.plugin import Case, Edit, Fact, Gold, Place, Query


@frozen(kw_only=True)
class EditConflict:
    """One fact that cases rewrite to different objects. ``targets``: the new facts, each with its cases' ids."""

    targets: tuple[tuple[Fact, tuple[str, ...]], ...]

    @property
    def majority(self) -> Fact:
        """The target of most edits; of equal ones the first in the file."""
        return max(self.targets, key=lambda target: len(target[1]))[0]

    @property
    def cases(self) -> tuple[str, ...]:
        """All its cases, in the order of their first target."""
        return tuple(dict.fromkeys(case for _fact, cases in self.targets for case in cases))


def conflicts(cases: Iterable[Case], rule: Rule = "question") -> tuple[EditConflict, ...]:
    """Return the facts with several targets: of the same question, or of the same ids with the rule ``id``.

    Edits without an old object add one: several objects of a multi-valued relation conflict only if an edit replaces
    one of them. An edit that answers a question replaces its answer, even if the old one is unknown.
    """
    key = by_id if rule == "id" else by_question
    found: dict[Place, dict[Objects, list[tuple[str, Fact]]]] = {}
    replaced: set[Place] = set()
    for case in cases:
        for edit, fact in edits_with_facts(case):
            found.setdefault(key(fact), {}).setdefault(objects_of(fact), []).append((case.id, fact))
            if edit.before is not None or _answers_question(edit):
                replaced.add(key(fact))
    return tuple(
        EditConflict(targets=tuple((held[0][1], tuple(case for case, _fact in held)) for held in by_target.values()))
        for place, by_target in found.items()
        if len(by_target) > 1 and place in replaced
    )


def _answers_question(edit: Edit) -> bool:
    """Return whether the statement is a question with its one answer, as ``question_edit`` makes it."""
    return edit.question is not None and edit.statement.startswith(edit.question)


def duplicates(cases: Iterable[Case]) -> tuple[tuple[str, ...], ...]:
    """Return groups of ids of cases with the same edits, questions and answers."""
    found: dict[object, list[str]] = {}
    for case in cases:
        found.setdefault(identity(case), []).append(case.id)
    return tuple(tuple(ids) for ids in found.values() if len(ids) > 1)


def identity(case: Case) -> object:
    """Return the common part of two duplicates: edits, and questions with their answers before and after the edits.

    Multi-hop questions are equal if their hops are equal, whatever their wording.
    """
    asked = frozenset(
        (probe.aspect, _question(query), _answer(query.gold), _answer(query.pre_edit))
        for probe in case.probes
        for query in probe.queries
        if not query.continuations
    )
    return frozenset(edit.id for edit in case.edits), asked


def named(fact: Fact) -> str:
    """Return the labels of a fact's objects."""
    return ", ".join(entity.label for entity in fact.objects) or "nothing"


def _question(query: Query) -> object:
    if not query.hops:
        return frozenset(query.texts)
    return tuple(tuple(frozenset(hop.texts) for hop in hops) for hops in (query.hops_before, query.hops))


def _answer(gold: Gold | None) -> object:
    """Return the keys of the right answer, in order if the order matters."""
    keys = [entity.key for entity in gold.entities] if gold else []
    return tuple(keys) if gold and gold.require == "ordered" else frozenset(keys)
