"""One case of a benchmark as a person reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from ke_core.data.facts import Entity
from ke_core.data.queries import Case, Probe, Query
from ke_core.protocols import Dataset
from ke_core.report.text import literal


def case_sheet(case: Case, dataset: Dataset, styles: Iterable[str] = ()) -> Group:
    """Edits, probes and right answers of ``case``; ``styles``: also the whole prompts in these styles."""
    tags = ", ".join(f"{name} {value}" for name, value in case.tags.items())
    lines: list[Text | Padding] = [literal(f"case {case.id}" + (f" ({tags})" if tags else ""), "bold")]
    if case.not_editable:
        lines.append(literal(f"  cannot be edited: {case.not_editable}"))
    for edit in case.edits:
        before = ", ".join(entity.label for entity in edit.before.objects) if edit.before else ""
        lines.append(literal(f"  edit {edit.id}: {edit.statement}" + (f"  [was: {before}]" if before else "")))
    for probe in case.probes:
        lines.append(literal(f"  {probe.aspect} ({_when(probe)})"))
        for query in probe.queries:
            lines += [literal(f"    {line}") for line in _query(query)]
            for style in styles:
                prompt = dataset.prompt(query, style)
                if prompt is not None:
                    lines += [literal(f"      as {style}:"), Padding(literal(prompt.text), (0, 0, 0, 8))]
    return Group(*lines, Text())


def _query(query: Query) -> Iterator[str]:
    yield query.texts[0]
    stale = f"; before the edit: {query.stale.words(_named)}" if query.stale is not None else ""
    yield f"  -> {query.gold.words(_named)}{stale}"


def _named(entity: Entity) -> str:
    return f"{entity.label} (also {', '.join(entity.aliases)})" if entity.aliases else entity.label


def _when(probe: Probe) -> str:
    when = {"before": "before the edit", "after": "after the edit", "both": "before and after the edit"}[probe.phase]
    return f"{when}, {probe.require} of {len(probe.queries)}" if len(probe.queries) > 1 else when
