"""The members of the sets before and after the edit that an answer names.

One finding for each item:

======== ============================================= ========
label    the item is                                   entity
======== ============================================= ========
gold     a member of the gold set                      its key
pre-edit a member of the pre-edit set only             its key
extra    neither                                       none
======== ============================================= ========

An item that is listed twice counts once, and each member is named by at most one item: two names of one member are
one finding. ``pre-edit`` and ``extra`` items are the wrong ones.

The continuation of a cloze does not stop after its objects ("Gabon, Africa, and is known for its ..."), so only the
members at its beginning count, as in the judge ``alias``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import Entity, Finding, Gold, Item, Judgment, Query, Session, Verdict
from ke_plugin_set import SetConfig
from ke_plugin_set.splitting import begins, items, normal


@frozen
class SetJudge:
    """Splits answers into items and compares them with sets."""

    config: SetConfig

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """Return one judgment for each item, in order. Needs no session."""
        del session
        return [self._one(item) for item in items]

    def _one(self, item: Item) -> Judgment:
        reply = item.answer
        if reply.outcome != "answered":
            return _judgment(Verdict.WRONG, Finding(item=reply.outcome, label="outcome"))
        if not item.query.gold.entities:
            return _judgment(Verdict.UNSURE, Finding(item="", label="no-gold-name"))
        return self._compare(item.query, reply.text)

    def _compare(self, query: Query, text: str) -> Judgment:
        old = query.pre_edit.entities if query.pre_edit else ()
        right = {entity.key for entity in query.gold.entities}
        members = {entity.key: entity for entity in (*query.gold.entities, *old)}
        names = {key: _normalized(entity) for key, entity in members.items()}
        written = items(text, _spelled(members))
        listed: dict[str, str] = {}  # each item once, at its first position
        pairs = _stated(written, names) if query.form == "cloze" else ((normal(item), item) for item in written)
        for name, item in pairs:
            listed.setdefault(name, item)
        named = _pairs({item: self._candidates(item, names) for item in listed})
        findings = [
            _finding(written_as, named.get(item), right)
            for item, written_as in listed.items()
            if self._new(item, named, names)
        ]
        return _judgment(self._verdict(query, findings, old), *findings)

    def _candidates(self, item: str, names: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the members that the item may name."""
        if self.config.match == "exact":
            return [key for key, known in names.items() if item in known]
        return [key for key, known in names.items() if any(_within(name, item) for name in known)]

    def _new(self, item: str, named: Mapping[str, str], names: Mapping[str, Sequence[str]]) -> bool:
        """Return whether it names a member that no other item names, or no member."""
        return item in named or not self._candidates(item, names)

    def _verdict(self, query: Query, findings: Sequence[Finding], old: Sequence[Entity]) -> Verdict:
        found = {finding.entity for finding in findings if finding.entity is not None}
        extra = any(finding.entity is None for finding in findings)
        if _enough(query.gold, found) and (self.config.extras or not (extra or found - _keys(query.gold.entities))):
            return Verdict.RIGHT
        if (
            query.pre_edit
            and _enough(query.pre_edit, found)
            and (self.config.extras or not (extra or found - _keys(old)))
        ):
            return Verdict.PRE_EDIT
        return Verdict.WRONG


def _stated(listed: Sequence[str], names: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Return the members that a continuation begins with, up to the first item that is more than a member's name."""
    for item in listed:
        said = normal(item)
        begun = begins(said, (name for known in names.values() for name in known))
        if not begun:
            return
        longest = max(begun, key=len)
        yield longest, item
        if said != longest:
            return


def _enough(gold: Gold, found: set[str]) -> bool:
    keys = _keys(gold.entities)
    return bool(keys & found) if gold.require == "any" else keys <= found


def _keys(entities: Sequence[Entity]) -> set[str]:
    return {entity.key for entity in entities}


def _finding(spelled: str, key: str | None, right: set[str]) -> Finding:
    label = "extra" if key is None else "gold" if key in right else "pre-edit"
    return Finding(item=spelled, label=label, entity=key)


def _pairs(candidates: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Map items to distinct members, for as many items as possible (augmenting paths: Kuhn 1955)."""
    taken: dict[str, str] = {}

    def place(item: str, seen: set[str]) -> bool:
        for key in candidates[item]:
            if key not in seen:
                seen.add(key)
                if key not in taken or place(taken[key], seen):
                    taken[key] = item
                    return True
        return False

    for item in candidates:
        place(item, set())
    return {item: key for key, item in taken.items()}


def _normalized(entity: Entity) -> tuple[str, ...]:
    """Normalize names, without empty ones, which would match everything."""
    return tuple(dict.fromkeys(name for name in map(normal, entity.names) if name))


def _spelled(members: Mapping[str, Entity]) -> list[str]:
    return [name for entity in members.values() for name in entity.names if name.strip()]


def _within(name: str, item: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", item) is not None


def _judgment(verdict: Verdict, *findings: Finding) -> Judgment:
    return Judgment(verdict=verdict, findings=findings)
