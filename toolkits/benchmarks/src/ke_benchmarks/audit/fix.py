"""Correct the errors of a dataset that a rule can correct: conflicting edits and duplicates.

As in MQuAKE-Remastered, section 4.2, a minority edit gets the object of the majority, and the chain after it is
computed again from edits or facts of other cases. If these are not known, the case is dropped. Contamination remains,
because it depends on which cases are edited: use masking or ``select``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import frozen

from ke_benchmarks.audit.bank import by_question
from ke_benchmarks.audit.pairs import conflicts, duplicates, named
from ke_benchmarks.audit.rebuild import CannotRebuild, FactIndex, rebuilt
from ke_core.plugin import Case, Edit, Place

Kind = Literal["changed", "dropped"]


@frozen(kw_only=True)
class CaseFix:
    """The change of a case, and the reason. ``before`` and ``after``: its edits' statements and its answer."""

    case: str
    kind: Kind
    why: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@frozen(kw_only=True)
class FixedDataset:
    """The corrected cases in their original order, and every change."""

    cases: tuple[Case, ...]
    changes: tuple[CaseFix, ...]


def fix(cases: Sequence[Case]) -> FixedDataset:
    """Resolve conflicting edits of one question, then drop duplicates, keeping the first."""
    found, changes = {case.id: case for case in cases}, list[CaseFix]()
    _resolve(found, changes, rebuild=True)
    _resolve(found, changes, rebuild=False)  # resolving two conflicts in one case can leave one
    for first, *others in duplicates(found.values()):
        for other in others:
            del found[other]
            changes.append(CaseFix(case=other, kind="dropped", why=f"the same as case {first}"))
    order = {case.id: at for at, case in enumerate(cases)}
    return FixedDataset(
        cases=tuple(found.values()), changes=tuple(sorted(changes, key=lambda change: order[change.case]))
    )


def _resolve(found: dict[str, Case], changes: list[CaseFix], *, rebuild: bool) -> None:
    """Give every case of a conflict the target of the majority, or drop it if that fails or without ``rebuild``."""
    winners: dict[Place, Edit] = {}
    beaten: dict[str, list[str]] = {}
    for conflict in conflicts(found.values()):
        winner = conflict.majority
        holders = next(names for fact, names in conflict.targets if fact is winner)
        winners[by_question(winner)] = next(edit for edit in found[holders[0]].edits if edit.after == winner)
        why = f"{winner.subject.label}, {winner.relation.label}: {len(holders)} edits say {named(winner)}"
        for name in dict.fromkeys(case for fact, names in conflict.targets if fact is not winner for case in names):
            beaten.setdefault(name, []).append(why)
    known = FactIndex.of(case for name, case in found.items() if name not in beaten)
    for name, reasons in beaten.items():
        case, why = found[name], "conflicting edits: " + "; ".join(reasons)
        try:
            found[name] = _fixed(case, winners, known, rebuild=rebuild)
        except CannotRebuild as wrong:
            del found[name]
            changes.append(CaseFix(case=name, kind="dropped", why=f"{why}; {wrong}", before=_summary(case)))
        else:
            after = _summary(found[name])
            changes.append(CaseFix(case=name, kind="changed", why=why, before=_summary(case), after=after))


def _fixed(case: Case, winners: Mapping[Place, Edit], known: FactIndex, *, rebuild: bool) -> Case:
    if not rebuild:
        raise CannotRebuild("resolving other conflicts caused this one")
    return rebuilt(case, winners, known)


def _summary(case: Case) -> tuple[str, ...]:
    answer = f"answer: {named(case.facts_after[-1])}" if case.facts_after else ""
    return tuple(text for text in (*(edit.statement for edit in case.edits), answer) if text)
