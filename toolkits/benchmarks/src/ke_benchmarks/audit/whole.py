"""All five types of error at once."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from ke_benchmarks.audit.bank import Rule
from ke_benchmarks.audit.contamination import Contamination, contamination, draw
from ke_benchmarks.audit.missing import MissingPieces, missing
from ke_benchmarks.audit.pairs import EditConflict, conflicts, duplicates
from ke_core.plugin import BadData, Case

USUAL = (1, 100, 1000)
"""Numbers of edited cases that are looked at where nothing else is asked, and all of them."""


@frozen(kw_only=True)
class Audit:
    """What was found. ``asked``: how many cases have multi-hop questions, which alone can miss a piece."""

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
        """Audit the dataset ``name``, with so many cases ``edited`` at a time, drawn by ``seed``.

        Raises BadData where it has nothing to compare, BadConfig for more edited cases than there are.
        """
        _comparable(name, cases)
        numbers = edited or (*(k for k in USUAL if k < len(cases)), len(cases))
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
        lacking = "holds no cases"
    elif not any(case.edits for case in cases):
        lacking = "has no edits"
    elif not any(edit.after for case in cases for edit in case.edits):
        lacking = "has edits that are sentences alone, without the facts that they make true"
    elif not any(case.facts_before or case.facts_after for case in cases):
        lacking = "has no paths: no case says which facts its answer rests on"
    if lacking:
        raise BadData(f"{name} cannot be audited: it {lacking}", hint="an audit compares edits with the paths of cases")
