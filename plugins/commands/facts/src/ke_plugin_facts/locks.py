"""Describe a version of a managed model: how it is made, and from what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from attrs import evolve

from ke_core.app import environment
from ke_plugin_facts.fact_file import FactFile, ManagedFact, file_digest
from ke_plugin_facts.planning import ModelPlan, Target
from ke_plugin_facts.versions import Lock, LockedFact


def new_lock(plan: ModelPlan, file: FactFile, target: Target, version: str, author: str) -> Lock:
    """Return the description of a new version, without its edits."""
    return Lock(
        version=version,
        parent=plan.current.version if plan.current else "",
        action="apply",
        created=now(),
        author=author,
        file=file.path.name,
        file_digest=file_digest(file, (*target.least, *target.most)),
        format=target.format,
        base=plan.loaded.base,
        editor=plan.component,
        seed=target.seed,
        software=environment(),
        facts=(*_locked(plan.edited, edited=True), *_locked(plan.held, edited=False)),
        patch="",
        weights=plan.loaded.base.weights,
    )


def _locked(facts: Sequence[ManagedFact], *, edited: bool) -> list[LockedFact]:
    return [
        LockedFact(
            id=one.id,
            digest=one.digest,
            statement=one.given.edit.statement,
            edited=edited,
            source=one.given.source,
            date=one.given.date,
            owner=one.owner,
        )
        for one in facts
    ]


def now() -> str:
    """Return the time, as lock files have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def without_edits(lock: Lock) -> Lock:
    """Return the description of the base of a version."""
    return evolve(lock, facts=(), patch="", weights=lock.base.weights, verified={}, cost=None, format="merged")
