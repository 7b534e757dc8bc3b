"""Drop cases with conflicting edits, and duplicates.

In a conflict, the cases of the majority are kept. Contamination remains, because it depends on which cases are edited:
use masking or ``select``.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from ke_benchmarks.audit.pairs import conflicts, duplicates, named
from ke_core.plugin import Case


@frozen(kw_only=True)
class DroppedCase:
    """A case that was dropped, the reason, and the statements of its edits."""

    case: str
    why: str
    edits: tuple[str, ...]


@frozen(kw_only=True)
class FixedDataset:
    """The remaining cases and the dropped ones, both in their original order."""

    cases: tuple[Case, ...]
    dropped: tuple[DroppedCase, ...]


def fix(cases: Sequence[Case]) -> FixedDataset:
    """Drop the cases of every minority in a conflict, then duplicates except for the first."""
    reasons: dict[str, list[str]] = {}
    for conflict in conflicts(cases):
        winner = conflict.majority
        count = next(len(names) for fact, names in conflict.targets if fact is winner)
        why = f"{winner.subject.label}, {winner.relation.label}: {count} edits say {named(winner)}"
        for name in dict.fromkeys(case for fact, names in conflict.targets if fact is not winner for case in names):
            reasons.setdefault(name, []).append(why)
    whys = {name: f"conflicting edits: {'; '.join(found)}" for name, found in reasons.items()}
    for first, *others in duplicates(case for case in cases if case.id not in reasons):
        whys |= dict.fromkeys(others, f"the same as case {first}")
    return FixedDataset(
        cases=tuple(case for case in cases if case.id not in whys),
        dropped=tuple(
            DroppedCase(case=case.id, why=whys[case.id], edits=tuple(edit.statement for edit in case.edits))
            for case in cases
            if case.id in whys
        ),
    )
