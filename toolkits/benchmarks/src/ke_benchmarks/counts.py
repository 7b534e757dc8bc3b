"""Count the cases of a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ke_core.plugin import Case

NOT_EDITABLE = "cannot be edited"


def count_cases(cases: Iterable[Case]) -> dict[str, int]:
    """Counts by name, in the order of a table.

    ``cases``, the cases that cannot be edited and their reasons (if there are any), ``edit mentions`` (edits of all
    cases), ``distinct statements`` (the same edit made by several cases counts once) and, where edits have one,
    ``distinct edited questions``. Then the cases by their tags: tags that count something are crossed
    (``2 hops, 1 edit``), any other tag is a row of its own (``part: train``).
    """
    found = {"cases": 0}
    mentions = 0
    reasons: Counter[str] = Counter()
    statements: set[str] = set()
    questions: set[str] = set()
    crossed: Counter[tuple[tuple[int, str], ...]] = Counter()
    alone: Counter[tuple[str, str]] = Counter()
    for case in cases:  # one pass, so that a large file is never held
        found["cases"] += 1
        mentions += len(case.edits)
        if case.not_editable:
            reasons[case.not_editable] += 1
        statements.update(edit.statement for edit in case.edits)
        questions.update(edit.question for edit in case.edits if edit.question is not None)
        crossed[_numbers(case.tags)] += 1
        alone.update(pair for pair in case.tags.items() if not pair[1].isdecimal())
    if reasons:
        found[NOT_EDITABLE] = reasons.total()
        found |= {f"{NOT_EDITABLE}: {reason}": number for reason, number in sorted(reasons.items())}
    found["edit mentions"] = mentions
    found["distinct statements"] = len(statements)
    if questions:
        found["distinct edited questions"] = len(questions)
    found |= {_cell(numbers): crossed[numbers] for numbers in sorted(crossed) if numbers}
    found |= {f"{name}: {value}": alone[name, value] for name, value in sorted(alone)}
    return found


def _numbers(tags: Mapping[str, str]) -> tuple[tuple[int, str], ...]:
    """The tags that count something, as (number, name), in the dataset's own order."""
    return tuple((int(value), name) for name, value in tags.items() if value.isdecimal())


def _cell(numbers: tuple[tuple[int, str], ...]) -> str:
    return ", ".join(f"{n} {name.removesuffix('s') if n == 1 else name}" for n, name in numbers)
