"""What ``ke plan``, ``ke apply`` and ``ke diff`` print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType

from ke_core.app import count_noun, literal, one_line, plain_table
from ke_core.plugin import to_json
from ke_plugin_facts.applying import Applied
from ke_plugin_facts.budget import percent
from ke_plugin_facts.calibration import EditBudget
from ke_plugin_facts.model_diff import ModelDifference, looks_like
from ke_plugin_facts.planning import CHANGES, Action, ModelPlan, PlannedFact
from ke_plugin_facts.versions import CURRENT, MODEL, EditCost, Lock, ManagedFolder
from ke_weights.report.edits import verify_json, verify_report
from ke_weights.report.push import push_json, push_report

SIGNS: dict[Action, tuple[str, str]] = {
    "add": ("+", "green"), "change": ("~", "yellow"), "remove": ("-", "red"), "refuse": ("!", "bold red"),
    "held": ("=", "dim"), "unchanged": (" ", "dim"),
}  # fmt: skip
ORDER: tuple[Action, ...] = ("add", "change", "remove", "refuse", "held", "unchanged")
QUIET_ROWS = 10
"""Facts without a change that are listed."""
DIFF_ROWS = 20
"""Rows of each table of ``ke diff``; --json has all."""


def plan_report(plan: ModelPlan, folder: ManagedFolder) -> Group:
    """Return one line for each fact, the counts, and the current version."""
    current = f"{folder.root}: {version_line(plan.current)}" if plan.current else f"{folder.root}: no version yet"
    lines: list[RenderableType] = [literal(current)]
    for action in ORDER:
        listed = plan.of(action)
        shown = listed if action in CHANGES or action == "refuse" else listed[:QUIET_ROWS]
        lines += [literal(_line(one), SIGNS[action][1]) for one in shown]
        if len(shown) < len(listed):
            lines.append(literal(f"    ... and {len(listed) - len(shown)} more ({action})", "dim"))
    if plan.rebuild and (plan.current or not plan.of(*CHANGES)):
        lines.append(literal(f"A new version is needed: {plan.rebuild}."))
    return Group(*lines, literal(_counts(plan), "bold"))


def _line(one: PlannedFact) -> str:
    notes = {"held": "the model knows it", "refuse": one.reason, "change": one.reason, "add": f"now: {one.answer}"}
    note = one_line(notes.get(one.action, ""), 60)
    return f"  {SIGNS[one.action][0]} {one_line(one.statement, 70)}" + (f"  ({note})" if note else "")


def _counts(plan: ModelPlan) -> str:
    words = {"add": "to add", "change": "to change", "remove": "to remove", "held": "known to the model",
             "unchanged": "unchanged", "refuse": "that the editor cannot make"}  # fmt: skip
    counts = [f"{len(plan.of(action))} {words[action]}" for action in ORDER if plan.of(action)]
    if not plan.changes and not plan.of("refuse"):
        return f"Nothing to do: {', '.join(counts) or 'no fact'}."
    return f"{count_noun(len(plan.facts), 'fact')}: {', '.join(counts)}."


def version_line(lock: Lock) -> str:
    """Return one line about a version."""
    count = f"{count_noun(len(lock.edited), 'edit')} by {lock.editor.name}" if lock.edited else "no edits"
    what = f"rollback to {lock.restores}, {count}" if lock.action == "rollback" else count
    return f"version {lock.version}, {what}, weights {lock.weights[:12]}, {lock.created}"


def apply_report(applied: Applied | None, folder: ManagedFolder) -> Iterator[RenderableType]:
    """Yield the verification, and where the result is."""
    if applied is None:
        return
    if applied.verification is not None:
        yield verify_report(applied.verification, applied.wanted)
    if applied.cost is not None:
        yield literal(_cost_line(applied.cost))
    if applied.pushed is not None:
        yield push_report(applied.pushed)
    for name in applied.stuck:
        yield literal(f"{name} could not be unloaded and may still be served.", "bold yellow")
    if applied.lock is None:
        what = "The check on the server failed" if applied.pushed is not None else "A bound was missed"
        yield literal(f"{what}, so nothing was changed.", "bold red")
    else:
        yield literal(f"{version_line(applied.lock)}: {folder.root / CURRENT / MODEL}", "bold")


def _cost_line(cost: EditCost) -> str:
    predicted = f"predicted {percent(cost.predicted)}, " if cost.predicted is not None else ""
    return f"The perplexity of unrelated text changes by {percent(cost.rise)} ({predicted}limit {percent(cost.limit)})."


def budget_report(budget: EditBudget) -> Iterator[RenderableType]:
    """Yield the edit budget, and a warning if the plan exceeds it."""
    if not budget.planned:
        return
    if budget.edits is None:
        yield literal(f"Edit budget of {budget.editor}: not known ({budget.why}).")
        return
    at_least = "at least " if budget.edits == budget.reach else "about "
    basis = f"{count_noun(budget.points, 'measurement')} with up to {count_noun(budget.measured, 'edit')}"
    rise = f"predicted rise {percent(budget.rise)}" if budget.rise is not None else "no prediction for so many edits"
    yield literal(
        f"Edit budget of {budget.editor}: {at_least}{count_noun(budget.edits, 'edit')} until the perplexity of "
        f"unrelated text rises by {percent(budget.limit)} ({basis}). This version has {budget.planned}: {rise}, "
        f"{max(budget.edits - budget.planned, 0):,} more within the budget."
    )
    if budget.exceeded:
        yield literal(
            "Warning: the plan exceeds the edit budget. ke apply stops, unless you pass --force.", "bold yellow"
        )


def budget_json(budget: EditBudget) -> dict[str, Any]:
    """Return the edit budget as JSON values. Numbers that are not known are null."""
    return {
        "editor": budget.editor,
        "planned": budget.planned,
        "limit": budget.limit,
        "edits": budget.edits,
        "rise": budget.rise,
        "exceeded": budget.exceeded,
        "measured": budget.measured,
        "sources": list(budget.sources),
        "unknown_because": budget.why or None,
    }


def plan_json(plan: ModelPlan) -> dict[str, Any]:
    """Return a plan as JSON values."""
    return {
        "current": plan.current.version if plan.current else None,
        "changes": plan.changes,
        "rebuild": plan.rebuild,
        "facts": [
            {
                "action": one.action,
                "id": one.id,
                "statement": one.statement,
                "answer": one.answer,
                "reason": one.reason,
                "owner": one.fact.owner if one.fact else None,
            }
            for one in plan.facts
        ],
    }


def apply_json(plan: ModelPlan, applied: Applied | None) -> dict[str, Any]:
    """Return a plan and its result as JSON values."""
    lock = applied.lock if applied else plan.current
    checked = applied.verification if applied else None
    return plan_json(plan) | {
        "changed": applied is not None and applied.lock not in (None, plan.current),
        "version": lock.version if lock else None,
        "lock": to_json(lock) if lock else None,
        "verification": verify_json(checked) if checked else None,
        "cost": to_json(applied.cost) if applied and applied.cost else None,
        "push": push_json(applied.pushed) if applied and applied.pushed else None,
        "still_served": list(applied.stuck) if applied else [],
    }


def rollback_json(made: Applied) -> dict[str, Any]:
    """Return the result of a rollback as JSON values. ``version`` is null if the server's check failed."""
    lock = made.lock
    return {
        "version": lock.version if lock else None,
        "restores": lock.restores if lock else None,
        "weights": lock.weights if lock else None,
        "push": push_json(made.pushed) if made.pushed else None,
        "still_served": list(made.stuck),
    }


def model_diff_report(found: ModelDifference, names: tuple[str, str]) -> Group:
    """Return the facts with the largest change, the changed weights, and what made them."""
    facts = plain_table("fact", *names, "log ratio")
    for one in found.facts[:DIFF_ROWS]:
        style = "bold" if one.changed else ""
        cells = (one.fact.given.edit.statement, one.first.text, one.second.text)
        facts.add_row(*(literal(one_line(cell, 40), style) for cell in cells), literal(f"{one.ratio:+.2f}"))
    weights = plain_table("weight", "size of the change", "rank")
    for each in found.weights[:DIFF_ROWS]:
        rank = "" if each.rank is None else f"{each.rank} of {each.full}"
        weights.add_row(literal(each.name), literal(f"{each.size:.2%}"), literal(rank))
    changed = sum(one.changed for one in found.facts)
    counts = f"{changed} of {count_noun(len(found.facts), 'fact')} are answered by only one of the models."
    parts: list[RenderableType] = [facts, literal(counts)]
    if found.weights:
        parts.append(weights)
    if len(found.weights) > DIFF_ROWS:
        parts.append(literal(f"... and {len(found.weights) - DIFF_ROWS} more weights; --json lists all", "dim"))
    return Group(*parts, literal(looks_like(found.weights), "bold"))


def model_diff_json(found: ModelDifference) -> dict[str, Any]:
    """Return the same as JSON values."""
    return {
        "facts": [
            {
                "id": one.fact.id,
                "statement": one.fact.given.edit.statement,
                "first": one.first.text,
                "second": one.second.text,
                "ratio": one.ratio,
                "changed": one.changed,
            }
            for one in found.facts
        ],
        "weights": [to_json(one) for one in found.weights],
        "looks_like": looks_like(found.weights),
    }
