"""The edits of some cases by what they rewrite, under one of five rules of what "the same fact" is.

MQuAKE-Remastered counts a hop as contaminated when an edit of the bank rewrites it. Its text does not say when an edit
and a hop are about the same fact, and a label may stand for several things: the rules are the readings that differ.
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
"""New objects of a fact, each with the ids of the cases whose edits give them, one a mention, in file order."""


def as_rule(name: str) -> Rule:
    """The rule of that name. Raises BadConfig for any other."""
    if name not in RULES:
        raise BadConfig(f"no rule {name!r}", hint=f"the rules are {', '.join(RULES)}")
    return cast("Rule", name)


def objects_of(fact: Fact) -> Objects:
    """What the fact says of its subject."""
    return frozenset(entity.key for entity in fact.objects)


def by_question(fact: Fact) -> Place:
    """What its single-hop question is made of: the subject's label and the relation."""
    return fact.subject.label, fact.relation.key


def by_id(fact: Fact) -> Place:
    """Subject and relation by id where they have one, else by label."""
    return fact.subject.key, fact.relation.key


def edits_with_facts(case: Case) -> tuple[tuple[Edit, Fact], ...]:
    """The edits of which it is known what they make true: a bare statement rewrites nothing that could be found."""
    return tuple((edit, edit.after) for edit in case.edits if edit.after is not None)


def shared_labels(cases: Iterable[Case]) -> frozenset[Place]:
    """Questions that edits of several different things would answer, as two cars of one name."""
    ids: dict[Place, set[str]] = {}
    for case in cases:
        for _edit, fact in edits_with_facts(case):
            ids.setdefault(by_question(fact), set()).add(fact.subject.key)
    return frozenset(question for question, found in ids.items() if len(found) > 1)


@frozen(kw_only=True)
class AuditBank:
    """The edits in force. ``shared``: ``shared_labels`` of the whole dataset, which the rule ``majority`` needs."""

    rule: Rule
    questions: Mapping[Place, Holders]
    ids: Mapping[Place, Holders]
    shared: frozenset[Place] = frozenset()

    @classmethod
    def of(cls, cases: Iterable[Case], rule: Rule, shared: frozenset[Place] = frozenset()) -> AuditBank:
        """The bank of the edits of ``cases``."""
        questions: dict[Place, dict[Objects, tuple[str, ...]]] = {}
        ids: dict[Place, dict[Objects, tuple[str, ...]]] = {}
        for case in cases:
            for _edit, fact in edits_with_facts(case):
                new = objects_of(fact)
                for held in (questions.setdefault(by_question(fact), {}), ids.setdefault(by_id(fact), {})):
                    held[new] = (*held.get(new, ()), case.id)
        return cls(rule=rule, questions=questions, ids=ids, shared=shared)

    def key(self, fact: Fact) -> Place:
        """What makes an edit a case's own for a hop."""
        return by_question(fact) if self.rule in ("question", "question-drop") else by_id(fact)

    def about(self, fact: Fact) -> Holders:
        """The new objects in force for ``fact``; empty where nobody rewrites it.

        ``question``: all that edits of its question give. ``id``: of its ids. ``question-drop``: as question, but
        edits that disagree are void. ``id-first``: of its ids, else of its question if the edits agree.
        ``majority``: of its ids, else of its question where the dataset's edits use that label for several things;
        of several targets the one with more than half of the mentions, on a tie none.
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
        """The holders of other objects than ``fact`` has: empty where the bank leaves it as it is."""
        objects = objects_of(fact)
        return {new: cases for new, cases in self.about(fact).items() if new != objects}


def majority(held: Holders) -> Holders:
    """The target that more than half of the edits give, alone; nothing on a tie."""
    counts = Counter({objects: len(cases) for objects, cases in held.items()})
    return {new: held[new] for new, n in counts.most_common(1) if 2 * n > counts.total()}
