"""Edits by the fact that they rewrite, with five rules for when two facts are the same.

MQuAKE-Remastered counts a hop as contaminated if an edit of the bank rewrites it. The paper does not define when an
edit and a hop have the same fact, and a label may belong to several entities. The rules are the possible readings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, cast, get_args

from attrs import frozen

from ke_core.plugin import BadConfig, Case, Edit, Fact, Place

Rule = Literal["question", "id", "question-drop", "id-first", "majority"]
RULES: tuple[str, ...] = get_args(Rule)
Objects = frozenset[str]
"""The objects of a fact, by key."""

Holders = Mapping[Objects, tuple[str, ...]]
"""New objects of a fact, each with the ids of the cases whose edits give them, one per mention, in file order."""


def as_rule(name: str) -> Rule:
    """Return the rule of that name. Raises BadConfig for any other."""
    if name not in RULES:
        raise BadConfig(f"unknown rule {name!r}", hint=f"use one of {', '.join(RULES)}")
    return cast("Rule", name)


def objects_of(fact: Fact) -> Objects:
    """Return the keys of the fact's objects."""
    return frozenset(entity.key for entity in fact.objects)


def by_question(fact: Fact) -> Place:
    """Return the parts of its single-hop question: the subject's label and the relation."""
    return fact.subject.label, fact.relation.key


def by_id(fact: Fact) -> Place:
    """Return subject and relation by id if they have one, otherwise by label."""
    return fact.subject.key, fact.relation.key


def edits_with_facts(case: Case) -> tuple[tuple[Edit, Fact], ...]:
    """Return the edits with a new fact: a statement without a fact cannot be compared."""
    return tuple((edit, edit.after) for edit in case.edits if edit.after is not None)


def shared_labels(cases: Iterable[Case]) -> frozenset[Place]:
    """Return questions that edits of several different entities would answer, such as two cars with one name."""
    ids: dict[Place, set[str]] = {}
    for case in cases:
        for _edit, fact in edits_with_facts(case):
            ids.setdefault(by_question(fact), set()).add(fact.subject.key)
    return frozenset(question for question, found in ids.items() if len(found) > 1)


@frozen(kw_only=True)
class AuditBank:
    """The active edits. ``shared``: ``shared_labels`` of the whole dataset, required by the rule ``majority``."""

    rule: Rule
    questions: Mapping[Place, Holders]
    ids: Mapping[Place, Holders]
    shared: frozenset[Place] = frozenset()

    @classmethod
    def of(cls, cases: Iterable[Case], rule: Rule, shared: frozenset[Place] = frozenset()) -> AuditBank:
        """Create the bank of the edits of ``cases``."""
        questions: dict[Place, dict[Objects, tuple[str, ...]]] = {}
        ids: dict[Place, dict[Objects, tuple[str, ...]]] = {}
        for case in cases:
            for _edit, fact in edits_with_facts(case):
                new = objects_of(fact)
                for held in (questions.setdefault(by_question(fact), {}), ids.setdefault(by_id(fact), {})):
                    held[new] = (*held.get(new, ()), case.id)
        return cls(rule=rule, questions=questions, ids=ids, shared=shared)

    def key(self, fact: Fact) -> Place:
        """Return the key that identifies a case's own edit of a hop."""
        return by_question(fact) if self.rule in ("question", "question-drop") else by_id(fact)

    def about(self, fact: Fact) -> Holders:
        """Return the active new objects for ``fact``; empty if no edit rewrites it.

        ``question``: those of all edits of its question. ``id``: those of its ids. ``question-drop``: as question, but
        contradicting edits are ignored. ``id-first``: those of its ids, otherwise of its question if the edits agree.
        ``majority``: those of its ids, otherwise of its question if the dataset's edits use that label for several
        entities; of several targets, the one with more than half of the mentions, or none.
        """
        asked, meant = self.questions.get(by_question(fact), {}), self.ids.get(by_id(fact), {})
        if self.rule == "question":
            return asked
        if self.rule == "id":
            return meant
        if self.rule == "question-drop":
            return asked if len(asked) == 1 else {}
        if self.rule == "id-first":
            return meant or (asked if len(asked) == 1 else {})
        return majority(meant or (asked if by_question(fact) in self.shared else {}))

    def against(self, fact: Fact) -> Holders:
        """Return the cases that give other objects than ``fact``; empty if the bank does not change it."""
        objects = objects_of(fact)
        return {new: cases for new, cases in self.about(fact).items() if new != objects}


def majority(held: Holders) -> Holders:
    """Return only the target of more than half of the edits; empty if there is none."""
    counts = Counter({objects: len(cases) for objects, cases in held.items()})
    return {new: held[new] for new, n in counts.most_common(1) if 2 * n > counts.total()}
