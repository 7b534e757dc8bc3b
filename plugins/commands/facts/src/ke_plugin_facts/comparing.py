"""Differences between two files of facts, and between the versions of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ke_core.plugin import canonical
from ke_plugin_facts.fact_file import FactFile, ManagedFact
from ke_weights.suites import Check

if TYPE_CHECKING:  # torch
    from ke_plugin_facts.versions import Lock, LockedFact

SHOWN = 10
"""Changes of a version in a table."""


def fact_changes(old: FactFile, new: FactFile) -> list[dict[str, Any]]:
    """Return a row for each fact, test, fact to keep, source and setting that differs."""
    before = {one.id: (one.digest, one.given.edit.statement) for one in old.facts}
    after = {one.id: (one.digest, one.given.edit.statement) for one in new.facts}
    sources = {one.id: one.given.source for one in (*old.facts, *new.facts)}
    told = {one.id: one for one in old.facts}
    same = [(told[one.id], one) for one in new.facts if one.id in told]
    rows = [
        _row(change, _statement(before, id_), _statement(after, id_), sources[id_])
        for change, id_ in _differences(before, after)
    ]
    parts = (
        ("test", _tests(old), _tests(new)),
        ("keep", _kept(old), _kept(new)),
        ("source", {one.id: _origin(one) for one, _new in same}, {one.id: _origin(one) for _old, one in same}),
        ("setting", _texts(old.settings), _texts(new.settings)),
    )
    return rows + [
        _row(what, left.get(key, ""), right.get(key, ""), key)
        for what, left, right in parts
        for key in sorted(left.keys() | right.keys())
        if left.get(key) != right.get(key)
    ]


def _row(change: str, before: str, after: str, source: str) -> dict[str, Any]:
    return {"change": change, "before": before, "after": after, "source": source}


def _tests(file: FactFile) -> dict[str, str]:
    """Return the tests and paraphrases of each fact as text."""
    return {one.id: "; ".join(map(_described, one.checks[1:])) for one in file.facts if one.checks[1:]}


def _kept(file: FactFile) -> dict[str, str]:
    return {one.prompt: _described(one) for one in file.keep}


def _origin(fact: ManagedFact) -> str:
    return ", ".join(text for text in (fact.given.source, fact.given.date, fact.owner) if text)


def _described(check: Check) -> str:
    expected = " or ".join(check.expect) or "as before"
    return f"{check.kind}: {check.prompt} {expected}" + "".join(f", not {name}" for name in check.wrong)


def _texts(settings: Mapping[str, Any]) -> dict[str, str]:
    return {name: canonical(value) for name, value in settings.items()}


def version_rows(chain: Sequence[Lock]) -> list[dict[str, Any]]:
    """Return a row for each version, newest first. ``changes``: against the version before it."""
    found = []
    for lock, parent in zip(chain, [*chain[1:], None], strict=True):
        before = _edited(parent) if parent else {}
        changes = [
            f"{change} {_statement({**before, **_edited(lock)}, id_)}"
            for change, id_ in _differences(before, _edited(lock))
        ]
        found.append({
            "version": lock.version,
            "created": lock.created,
            "author": lock.author,
            "action": f"rollback to {lock.restores}" if lock.restores else lock.action,
            "edits": len(lock.edited),
            "weights": lock.weights[:12],
            "changes": changes,
        })  # fmt: skip
    return found


def shortened(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of ``version_rows`` with at most ``SHOWN`` changes each, and the number of the others."""
    return [
        {**row, "changes": [*row["changes"][:SHOWN], f"... and {more} more; --json shows all"]}
        if (more := len(row["changes"]) - SHOWN) > 0
        else dict(row)
        for row in rows
    ]


def _edited(lock: Lock) -> dict[str, tuple[str, str]]:
    return {one.id: (one.digest, _with_source(one)) for one in lock.edited.values()}


def _with_source(one: LockedFact) -> str:
    return f"{one.statement} ({one.source})" if one.source else one.statement


def _differences(before: Mapping[str, tuple[str, str]], after: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what happened to each id that differs: added, changed or removed."""
    return [
        *(("added", id_) for id_ in after if id_ not in before),
        *(("changed", id_) for id_ in after if id_ in before and before[id_][0] != after[id_][0]),
        *(("removed", id_) for id_ in before if id_ not in after),
    ]


def _statement(facts: Mapping[str, tuple[str, str]], id_: str) -> str:
    return facts[id_][1] if id_ in facts else ""
