"""How many there are of what in a benchmark, from the edits and the tags of its cases alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ke_core.data.queries import Case


def count(cases: Iterable[Case]) -> dict[str, int]:
    """Counts by name, in the order of a table.

    ``cases``, ``edit mentions`` (edits of all cases), ``distinct statements`` (the same edit made by several
    cases counts once) and, where edits have one, ``distinct edited questions``. Then the cases by their tags:
    tags that count something are crossed (``2 hops, 1 edit``), any other tag stands alone (``part: train``).
    """
    kept = tuple(cases)
    edits = [edit for case in kept for edit in case.edits]
    questions = {edit.question for edit in edits if edit.question is not None}
    found = {"cases": len(kept), "edit mentions": len(edits), "distinct statements": len({e.statement for e in edits})}
    if questions:
        found["distinct edited questions"] = len(questions)
    crossed = Counter(_numbers(case.tags) for case in kept)
    alone = Counter(pair for case in kept for pair in case.tags.items() if not pair[1].isdecimal())
    found |= {_cell(numbers): crossed[numbers] for numbers in sorted(crossed) if numbers}
    found |= {f"{name}: {value}": alone[name, value] for name, value in sorted(alone)}
    return found


def _numbers(tags: Mapping[str, str]) -> tuple[tuple[int, str], ...]:
    """The tags that count something, as (number, name), in the dataset's own order."""
    return tuple((int(value), name) for name, value in tags.items() if value.isdecimal())


def _cell(numbers: tuple[tuple[int, str], ...]) -> str:
    return ", ".join(f"{n} {name.removesuffix('s') if n == 1 else name}" for n, name in numbers)
