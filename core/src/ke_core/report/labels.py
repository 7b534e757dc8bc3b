"""Labels by hand against a judge: how far they agree, who said what, and where they differ."""

from __future__ import annotations

from rich.console import Group, RenderableType

from ke_core.report.clean import one_line
from ke_core.report.footer import component_words
from ke_core.report.numbers import counted
from ke_core.report.text import literal, plain_table, titled
from ke_core.run.labelling import LABELS, Sheet


def labels_page(found: Sheet) -> Group:
    """Everything for people."""
    judge = found.judge.name
    table = plain_table("by hand", *(f"{judge}: {label}" for label in LABELS))
    for column in table.columns[1:]:
        column.justify = "right"
    for label, counts in found.table.items():
        table.add_row(*map(literal, (label, *(f"{n:,}" if n else "" for n in counts.values()))))
    waiting = f", {counted(found.open, 'row')} without a label" if found.open else ""
    parts: list[RenderableType] = [
        titled(f"{component_words(found.judge)} against {counted(found.n, 'label')} by hand{waiting}", table),
        literal(f"right or not: {found.right}, {found.right.agreed:,} of {found.n:,} alike"),
        literal(f"all verdicts: {found.verdicts}, {found.verdicts.agreed:,} of {found.n:,} alike"),
    ]
    if found.disagreed:
        parts.append(literal(f"judged otherwise by hand: {counted(len(found.disagreed), 'answer')}"))
    for item, label in found.disagreed:
        where = f"case {item.case}, {item.query} ({item.phase}, {item.style})"
        said = f"{one_line(item.answer.text, 60)!r}, right is {one_line(item.gold, 60)}"
        parts.append(literal(f"  {where}: {label} by hand, {item.verdict.value} by {judge}: {said}"))
    return Group(*parts)
