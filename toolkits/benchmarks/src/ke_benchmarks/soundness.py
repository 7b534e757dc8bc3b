"""Check that cases are sound, so that scores mean what they claim. Pure functions.

=========== ======= ====================================================================================
rule        level   problem
=========== ======= ====================================================================================
id          error   two cases, or two edits or probes of a case, share an id; one query id has two
                    questions; one edit id has two statements; a probe or query names an unknown edit
answer      error   a question has no right answer, no edit deletes one, and it measures neither fluency
                    nor locality; a name is blank; the right answer after the edit was right before
                    (warning: the two only share a name)
label       error   a bare id in place of a missing label, an address in place of the label of an entity
                    with an id, or either in a question
chain       error   a hop does not start where the previous one ended, or the chain has a cycle
edit        error   the new object is the old one, or the cloze's subject is not the fact's
edit        warning no efficacy probe tests it; it has no new object, so weight editors refuse it
alias       warning an alias of a right answer is another entity's label, so naming that entity passes
=========== ======= ====================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

from attrs import define, field, frozen

from ke_core.plugin import EFFICACY, FLUENCY, LOCALITY, Case, Edit, Entity, Fact, Gold, Query

Level = Literal["error", "warning"]
Found = tuple[Level, str, str]
"""Level, rule, and message."""
BARE = re.compile(r"[QPL][1-9]\d*|_:\S+|https?://\S+")
"""Ids of Wikidata, blank nodes, addresses: what graphs contain in place of missing labels."""


@frozen(kw_only=True)
class Problem:
    """A problem of ``cases`` (ids, in order)."""

    level: Level
    rule: str
    what: str
    cases: tuple[str, ...] = ()


def problems(cases: Iterable[Case]) -> tuple[Problem, ...]:
    """Return all problems of ``cases``, errors first. One pass, with only names and findings in memory."""
    check = Soundness()
    for case in cases:
        check.add(case)
    return check.problems()


@define
class Soundness:
    """Checks cases one by one: ``add`` each, then read ``problems``.

    ``known_flaws``: rules whose errors are warnings (``DatasetInfo``).
    """

    known_flaws: frozenset[str] = frozenset()
    _found: dict[Found, dict[str, None]] = field(factory=dict)
    _seen: set[str] = field(factory=set)
    _statements: dict[str, str] = field(factory=dict)
    _labels: dict[str, dict[str, str]] = field(factory=dict)
    """Case-folded label to its entities: key to original label."""
    _aliases: dict[tuple[str, str, str], dict[str, None]] = field(factory=dict)
    """(Alias, key and label of its right answer) to the cases that accept it."""

    def add(self, case: Case) -> None:
        """Check one case, and store what is compared with other cases."""
        if case.id in self._seen:
            self._note(("error", "id", f"two cases have the id {case.id!r}"), case)
        self._seen.add(case.id)
        for rule in (_ids, _answers, _labels, _chains, _edits):
            for found in rule(case):
                self._note(found, case)
        for edit in case.edits:
            if self._statements.setdefault(edit.id, edit.statement) != edit.statement:
                self._note(("error", "id", f"edit {edit.id!r} has two statements"), case)
        for entity in entities(case):
            self._labels.setdefault(_folded(entity.label), {}).setdefault(entity.key, entity.label)
        for gold in (query.gold for query in queries(case)):
            for entity in gold.entities:
                for alias in entity.aliases:
                    self._aliases.setdefault((_folded(alias), entity.key, entity.label), {})[case.id] = None

    def problems(self) -> tuple[Problem, ...]:
        """Return all problems so far, errors first, then by rule, in order of first occurrence."""
        found = [*self._found.items(), *self._shared_names()]
        return tuple(
            Problem(level=level, rule=rule, what=what, cases=tuple(cases))
            for (level, rule, what), cases in sorted(found, key=lambda item: item[0][:2])
        )

    def _note(self, found: Found, case: Case) -> None:
        level, rule, what = found
        self._found.setdefault(("warning" if rule in self.known_flaws else level, rule, what), {})[case.id] = None

    def _shared_names(self) -> Iterator[tuple[Found, dict[str, None]]]:
        """Return aliases that are another entity's label. An entity may occur with and without an id."""
        for (alias, key, label), cases in self._aliases.items():
            others = [
                spelled
                for other, spelled in self._labels.get(alias, {}).items()
                if other != key and _folded(spelled) != _folded(label)
            ]
            if others:
                yield (
                    ("warning", "alias", f"an alias of {label!r} is the label of another entity, {others[0]!r}"),
                    cases,
                )


def queries(case: Case) -> Iterator[Query]:
    """Yield every query of a case, conditions included, each followed by its hops."""
    for probe in case.probes:
        for query in (*probe.queries, *probe.given):
            yield from (query, *query.hops, *query.hops_before)


def entities(case: Case) -> Iterator[Entity]:
    """Yield every mention of an entity in facts and answers."""
    for fact in _facts(case):
        yield from (fact.subject, *fact.objects)
    for query in queries(case):
        yield from query.gold.entities
        yield from query.pre_edit.entities if query.pre_edit else ()


def _facts(case: Case) -> Iterator[Fact]:
    yield from (*case.facts_before, *case.facts_after)
    yield from (fact for edit in case.edits for fact in (edit.before, edit.after) if fact is not None)


def _ids(case: Case) -> Iterator[Found]:
    edits = {edit.id for edit in case.edits}
    if len(edits) < len(case.edits):
        yield "error", "id", "two edits of the case share an id"
    if len({probe.id for probe in case.probes}) < len(case.probes):
        yield "error", "id", "two probes of the case share an id"
    asked: dict[str, str] = {}
    for probe in case.probes:
        for query in (*probe.queries, *probe.given):
            if asked.setdefault(query.id, query.texts[0]) != query.texts[0]:
                yield "error", "id", f"query {query.id!r} has two questions"
            if query.edit is not None and query.edit not in edits:
                yield "error", "id", f"query {query.id!r} names edit {query.edit!r}, which the case does not contain"
        for name in probe.edits:
            if name not in edits:
                yield "error", "id", f"probe {probe.id!r} tests edit {name!r}, which the case does not contain"


def _answers(case: Case) -> Iterator[Found]:
    deletes = any(edit.removed and len(edit.removed) > len(edit.added) for edit in case.edits)
    compared = {query.id for probe in case.probes if probe.aspect in (FLUENCY, LOCALITY) for query in probe.queries}
    for query in queries(case):
        where = f"query {query.id!r}"
        # log-probability, fluency, or agreement of both models: no right answer is needed
        measured = len(query.continuations) == 1 or query.id in compared
        if not query.gold.entities and not deletes and not measured:
            yield "error", "answer", f"{where} has no right answer"
        if not all(text.strip() for text in query.texts) and not (query.continuations and query.is_whole_text):
            yield "error", "answer", f"a wording of {where} is blank"
        pre_edit = query.pre_edit
        if not all(name.strip() for gold in (query.gold, pre_edit) for name in _names(gold)):
            yield "error", "answer", f"a right answer of {where} has a blank name"
        if pre_edit is None or not pre_edit.entities:
            continue
        if _same(query.gold, pre_edit):
            yield "error", "answer", f"{where} has the same answer before and after the edit"
        elif (
            query.gold.require == pre_edit.require == "all" and len(query.gold.entities) == len(pre_edit.entities) == 1
        ):
            shared = {_folded(name) for name in _names(query.gold)} & {_folded(name) for name in _names(pre_edit)}
            if shared:
                yield "warning", "answer", f"{min(shared)!r} names both the old and the new answer of a question"


def _labels(case: Case) -> Iterator[Found]:
    bare: dict[str, None] = {}
    for entity in entities(case):
        if _is_bare(entity.label, entity.id):
            yield "error", "label", f"{entity.label!r} has no label, only its id"
        elif entity.id is not None and BARE.fullmatch(entity.id):
            bare[entity.id] = None
    for relation in {fact.relation.key: fact.relation for fact in _facts(case)}.values():
        if _is_bare(relation.label, relation.id):
            yield "error", "label", f"relation {relation.label!r} has no label, only its id"
    texts = [text for query in queries(case) for text in (*query.texts, query.cloze or "")]
    texts += [edit.statement for edit in case.edits]
    for found in dict.fromkeys(word for text in texts for word in BARE.findall(text)):
        if found in bare:
            yield "error", "label", f"a text contains {found!r} in place of a label"


def _chains(case: Case) -> Iterator[Found]:
    """Check the chains. A chain has as many facts as the tag ``hops``, otherwise as many as a question has hops."""
    for name, facts in (("", case.facts_after), ("old ", case.facts_before)):
        if len(facts) > 1 and _claims_chain(case, facts):
            yield from _chain(facts, name)


def _chain(facts: Sequence[Fact], name: str) -> Iterator[Found]:
    for number, (before, fact) in enumerate(pairwise(facts), start=2):
        if fact.subject.key not in {entity.key for entity in before.objects}:
            ended = ", ".join(entity.label for entity in before.objects) or "nothing"
            broken = f"starts at {fact.subject.label!r}, but hop {number - 1} ends at {ended!r}"
            yield "error", "chain", f"hop {number} of the {name}chain {broken}"
            return
    passed = [fact.subject.key for fact in facts]
    for number, fact in enumerate(facts, start=1):
        back = [entity.label for entity in fact.objects if entity.key in passed[:number]]
        if back:
            yield "error", "chain", f"hop {number} of the {name}chain returns to {back[0]!r}"


def _claims_chain(case: Case, facts: Sequence[Fact]) -> bool:
    hops = case.tags.get("hops")
    if hops is not None:
        return hops == str(len(facts))
    behind = [query for probe in case.probes for query in probe.queries if query.hops]
    single = all(len(fact.objects) == 1 for fact in (*case.facts_before, *case.facts_after))
    # the answer of a set operation, such as a union, is not that of the last hop
    return bool(behind and single) and all(
        len(query.hops) == len(facts) and _same(query.gold, query.hops[-1].gold) for query in behind
    )


def _edits(case: Case) -> Iterator[Found]:
    tested = {name for probe in case.probes if probe.aspect == EFFICACY for name in probe.edits}
    for edit in case.edits:
        if edit.id not in tested:
            yield "warning", "edit", f"no efficacy probe tests edit {edit.id!r}"
        if edit.after is None and edit.free_form is None:
            yield "warning", "edit", f'edit {edit.id!r} has no "after": weight editors refuse it'
        yield from _edit(edit)


def _edit(edit: Edit) -> Iterator[Found]:
    before, after = edit.before, edit.after
    if before is not None and after is not None:
        labels = [sorted(_folded(entity.label) for entity in fact.objects) for fact in (before, after)]
        if edit.operation == "none" or labels[0] == labels[1]:
            yield "error", "edit", f"the new object of edit {edit.id!r} is the old one"
        if (before.subject.key, before.relation.key) != (after.subject.key, after.relation.key):
            yield "error", "edit", f"edit {edit.id!r} has different facts before and after"
    if edit.target and edit.free_form is not None and edit.target == edit.old_target:
        yield "error", "edit", f"the new text of edit {edit.id!r} is the old one"
    fact = after or before
    if edit.cloze is None or fact is None:
        return
    if _folded(edit.cloze.subject) not in {_folded(name) for name in fact.subject.names}:
        about = f"{edit.cloze.subject!r}, not {fact.subject.label!r}"
        yield "error", "edit", f"the cloze of edit {edit.id!r} is about {about}"


def _is_bare(label: str, id_: str | None) -> bool:
    """Return whether an entity is a bare id: it has no other name than its id.

    An entity may be called "Q1", and an answer without an id may be an address.
    """
    name = label.strip()
    return bool(BARE.fullmatch(name)) and ("://" not in name if id_ is None else id_.endswith(name))


def _same(gold: Gold, pre_edit: Gold) -> bool:
    """Return whether one answer is right for both: the same entities, in the same order if it matters."""
    keys = [[entity.key for entity in one.entities] for one in (gold, pre_edit)]
    return keys[0] == keys[1] or (gold.require != "ordered" and set(keys[0]) == set(keys[1]))


def _names(gold: Gold | None) -> Iterator[str]:
    for entity in gold.entities if gold else ():
        yield from entity.names


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()
