"""Print the agreement of manual labels with a judge, and the answers on which they differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ke_core.app import count_noun, literal, one_line, plain_table, titled
from ke_core.plugin import to_json
from ke_plugin_analysis.annotating import LABELS, LabelSheet
from ke_plugin_analysis.footer import component_words
from ke_plugin_analysis.sorting import LabelComparison


def labels_json(found: LabelSheet) -> dict[str, Any]:
    """Return the agreement and the disagreements as JSON values."""
    return {
        "judge": to_json(found.judge),
        "n": found.n,
        "open": found.open,
        "right": to_json(found.right),
        "verdicts": to_json(found.verdicts),
        "table": to_json(found.table),
        "metrics": [
            {
                "metric": one.sorting.name,
                "n": one.n,
                "fractions": to_json(one.shares),
                "agreement": to_json(one.agreement),
                "table": to_json(one.table),
                "unclassified": dict(one.apart),
            }
            for one in found.sortings
        ],
        "disagreements": [{**to_json(item), "label": label} for item, label in found.disagreed],
    }


def labels_page(found: LabelSheet) -> Group:
    """Return the page for the terminal."""
    judge = found.judge.name
    table = plain_table("manual", *(f"{judge}: {label}" for label in LABELS))
    for column in table.columns[1:]:
        column.justify = "right"
    for label, counts in found.table.items():
        table.add_row(*map(literal, (label, *(f"{n:,}" if n else "" for n in counts.values()))))
    waiting = f", {count_noun(found.open, 'row')} without a label" if found.open else ""
    parts: list[RenderableType] = [
        titled(f"{component_words(found.judge)} against {count_noun(found.n, 'label')} (manual){waiting}", table),
        literal(f"right or not: {found.right}, {found.right.agreed:,} of {found.n:,} equal"),
        literal(f"all verdicts: {found.verdicts}, {found.verdicts.agreed:,} of {found.n:,} equal"),
    ]
    for one in found.sortings:
        parts += [Text(), *_sorted(one)]
    if found.disagreed:
        parts.append(Text())
        parts.append(literal(f"different manual label: {count_noun(len(found.disagreed), 'answer')}"))
    for item, label in found.disagreed:
        where = f"case {item.case}, {item.query} ({item.phase}, {item.style})"
        texts = f"{one_line(item.answer.text, 60)!r}, right is {one_line(item.gold, 60)}"
        parts.append(literal(f"  {where}: manual {label}, {judge} {item.verdict.value}: {texts}"))
    return Group(*parts)


def _sorted(found: LabelComparison) -> Iterator[RenderableType]:
    """Yield the fractions of the manual labels, compared with the metric's labels."""
    name = found.sorting.name
    table = plain_table("manual", "%", "95% interval", "n", *(f"{name}: {label}" for label in found.sorting.labels))
    for column in table.columns[1:]:
        column.justify = "right"
    for label, share in found.shares.items():
        between = share.interval
        interval = f"{100 * between.low:.1f}-{100 * between.high:.1f}" if between else "one case"
        counts = (f"{n:,}" if n else "" for n in found.table[label].values())
        table.add_row(*map(literal, (label, f"{100 * share.value:.1f}", interval, f"{share.count:,}", *counts)))
    yield titled(
        f"{component_words(found.sorting.chosen.component)}: {count_noun(found.n, 'answer')} labeled manually", table
    )
    if found.agreement is not None:
        yield literal(f"{name}: {found.agreement}, {found.agreement.agreed:,} of {found.agreement.n:,} equal")
    for why, n in found.apart.items():
        yield literal(f"{name} has no label for {n:,} of them: {why}", "yellow")
