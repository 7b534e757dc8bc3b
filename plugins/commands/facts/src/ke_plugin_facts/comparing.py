"""Differences between two files of facts, and between the versions of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ke_plugin_facts.fact_file import FactFile
from ke_plugin_facts.versions import Lock


def fact_changes(old: FactFile, new: FactFile) -> list[dict[str, Any]]:
    """Return a row for each fact that differs."""
    before = {one.id: (one.digest, one.given.edit.statement) for one in old.facts}
    after = {one.id: (one.digest, one.given.edit.statement) for one in new.facts}
    sources = {one.id: one.given.source for one in (*old.facts, *new.facts)}
    return [
        {"change": change, "before": _statement(before, id_), "after": _statement(after, id_), "source": sources[id_]}
        for change, id_ in _differences(before, after)
    ]


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


def _edited(lock: Lock) -> dict[str, tuple[str, str]]:
    return {one.id: (one.digest, f"{one.statement} ({one.source})") for one in lock.edited.values()}


def _differences(before: Mapping[str, tuple[str, str]], after: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what happened to each id that differs: added, changed or removed."""
    return [
        *(("added", id_) for id_ in after if id_ not in before),
        *(("changed", id_) for id_ in after if id_ in before and before[id_][0] != after[id_][0]),
        *(("removed", id_) for id_ in before if id_ not in after),
    ]


def _statement(facts: Mapping[str, tuple[str, str]], id_: str) -> str:
    return facts[id_][1] if id_ in facts else ""
