"""All five types of error together."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from ke_benchmarks.audit.bank import Rule
from ke_benchmarks.audit.contamination import Contamination, contamination, draw
from ke_benchmarks.audit.missing import MissingPieces, missing
from ke_benchmarks.audit.pairs import EditConflict, conflicts, duplicates
from ke_core.plugin import BadData, Case

DEFAULT_EDITED = (1, 100, 1000)
"""Default numbers of edited cases, in addition to all cases."""


@frozen(kw_only=True)
class Audit:
    """The result. ``asked``: number of cases with multi-hop questions, the only ones that can omit a part."""

    rule: Rule
    seed: int
    cases: int
    contaminations: tuple[Contamination, ...]
    conflicts: tuple[EditConflict, ...]
    duplicates: tuple[tuple[str, ...], ...]
    missing: tuple[MissingPieces, ...]
    asked: int
    pathless: int

    @classmethod
    def of(cls, name: str, cases: Sequence[Case], *, edited: Sequence[int] = (), seed: int = 100, rule: Rule) -> Audit:
        """Audit the dataset ``name`` for these numbers of ``edited`` cases, sampled with ``seed``.

        Raises BadData if there is nothing to compare, BadConfig for more edited cases than there are.
        """
        _comparable(name, cases)
        numbers = edited or (*(k for k in DEFAULT_EDITED if k < len(cases)), len(cases))
        drawn = [draw(cases, k, seed) for k in numbers]
        flagged, asked = missing(cases)
        return cls(
            rule=rule,
            seed=seed,
            cases=len(cases),
            contaminations=tuple(contamination(cases, ids, rule) for ids in drawn),
            conflicts=conflicts(cases, rule),
            duplicates=duplicates(cases),
            missing=flagged,
            asked=asked,
            pathless=sum(not (case.facts_before and case.facts_after) for case in cases),
        )


def _comparable(name: str, cases: Sequence[Case]) -> None:
    lacking = ""
    if not cases:
        lacking = "has no cases"
    elif not any(case.edits for case in cases):
        lacking = "has no edits"
    elif not any(edit.after for case in cases for edit in case.edits):
        lacking = "has only edits that are sentences without facts"
    elif not any(case.facts_before or case.facts_after for case in cases):
        lacking = "has no paths: no case contains the facts that its answer depends on"
    if lacking:
        raise BadData(f"{name} cannot be audited: it {lacking}", hint="an audit compares edits with the paths of cases")
