"""An audit as tables, as a list of cases with reasons, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import asdict
from rich.console import Group, RenderableType
from rich.text import Text

from ke_benchmarks.audit import (
    Audit,
    ContaminatedHop,
    Contamination,
    EditConflict,
    FixedDataset,
    RuleAgreement,
    Selection,
    named,
    tally,
)
from ke_core.app import count_noun, literal, plain_table
from ke_core.plugin import Fact, PublishedAudit, Victims

BY = 3
"""Maximum number of cases named as the cause of a contaminated hop. The JSON has all of them."""


def audit_report(name: str, audit: Audit, published: PublishedAudit | None, agreed: RuleAgreement | None) -> Group:
    """Return the counts next to the published ones."""
    printed = published if published is not None and published.seed == audit.seed else None
    title = f"{name}: {count_noun(audit.cases, 'case')}, rule {audit.rule}, seed {audit.seed}"
    parts: list[RenderableType] = [literal(title, "bold"), _victims(audit, printed)]
    if printed is not None:
        parts.append(literal(f"victims are cases/sub-questions; published: {printed.source}", "dim"))
    lines = [*_conflicts(audit.conflicts), *_duplicates(audit, published), *_missing(audit, published)]
    if agreed is not None:
        lines.append(_agreed(agreed))
    if audit.pathless:
        lines.append(
            f"{count_noun(audit.pathless, 'case')} without a path before or after: contamination cannot be detected"
        )
    return Group(*parts, *(literal(line) for line in lines))


def flagged_cases(audit: Audit) -> Iterator[Text]:
    """Yield one line for each flagged case with the reason, grouped by type."""
    for found in audit.contaminations:
        for kind, hits in _sides(found):
            for hit in hits:
                yield literal(f"case {hit.case}: {kind}, {len(found.edited)} edited, hop {hit.hop}: {_reason(hit)}")
    for conflict in audit.conflicts:
        for fact, cases in conflict.targets:
            for case in cases:
                yield literal(f"case {case}: conflicting edits: {_said(fact)}, which other edits rewrite differently")
    for first, *others in audit.duplicates:
        for other in others:
            yield literal(f"case {other}: duplicate of case {first}")
    for one in audit.missing:
        yield literal(
            f"case {one.case}: missing information: {', '.join(one.pieces)} in none of: {' | '.join(one.texts)}"
        )


def fix_report(fixed: FixedDataset) -> Iterator[Text]:
    """Yield how many cases were changed and dropped, and why."""
    for kind in ("changed", "dropped"):
        own = [change for change in fixed.changes if change.kind == kind]
        yield literal(f"{count_noun(len(own), 'case')} {kind}{':' if own else ''}")
        yield from (literal(f"  case {change.case}: {change.why}") for change in own)


def selection_report(found: Selection, cases: int) -> Text:
    """Return the size of a selection and its upper bound."""
    size = len(found.cases)
    share = f", {size / found.bound:.2%} of it" if found.bound else ""
    simple = f"dropping all victims, conflicting cases and duplicates would leave {cases - found.victims:,}"
    pairs = count_noun(found.exclusions, "pair")
    return literal(f"{size:,} of {cases:,} cases selected (upper bound {found.bound:,}{share}); {pairs} exclude "
                   f"each other; {simple}")  # fmt: skip


def audit_json(
    name: str, audit: Audit, published: PublishedAudit | None, agreed: RuleAgreement | None
) -> dict[str, Any]:
    """Return the whole audit as JSON values."""
    printed = published if published is not None and published.seed == audit.seed else None
    return {
        "dataset": name,
        "cases": audit.cases,
        "rule": audit.rule,
        "seed": audit.seed,
        "contamination": [
            {
                "edited": len(found.edited),
                "ids": list(found.edited),
                "unedited_victims": _side_json(found.on_unedited, _printed(printed, found, edited=False)),
                "edited_victims": _side_json(found.on_edited, _printed(printed, found, edited=True)),
            }
            for found in audit.contaminations
        ],
        "conflicts": [
            {
                "subject": conflict.majority.subject.label,
                "relation": conflict.majority.relation.label,
                "targets": [{"objects": named(fact), "cases": list(cases)} for fact, cases in conflict.targets],
            }
            for conflict in audit.conflicts
        ],
        "duplicates": [list(group) for group in audit.duplicates],
        "missing_information": {
            "looked_at": audit.asked,
            "cases": [
                {"case": one.case, "pieces": list(one.pieces), "questions": list(one.texts)} for one in audit.missing
            ],
            "published": published.missing if published is not None else None,
            "against_corrected": asdict(agreed) if agreed is not None else None,
        },
    }


def _victims(audit: Audit, printed: PublishedAudit | None) -> RenderableType:
    comparison = ["published"] if printed is not None else []
    table = plain_table("edited", "unedited victims", *comparison, "edited victims", *comparison)
    for column in table.columns:
        column.justify = "right"
    for found in audit.contaminations:
        cells = [f"{len(found.edited):,}"]
        for edited, hits in ((False, found.on_unedited), (True, found.on_edited)):
            ours, theirs = tally(hits), _printed(printed, found, edited=edited)
            cells += [_pair(ours), *("" if theirs is None else _pair(theirs) for _column in comparison)]
        table.add_row(*(literal(cell) for cell in cells))
    return table


def _printed(printed: PublishedAudit | None, found: Contamination, *, edited: bool) -> Victims | None:
    if printed is None:
        return None
    return (printed.on_edited if edited else printed.on_unedited).get(len(found.edited))


def _conflicts(found: Sequence[EditConflict]) -> Iterator[str]:
    cases = {case for conflict in found for case in conflict.cases}
    questions = count_noun(len(found), "question")
    yield f"conflicting edits: {questions} with several targets, in {count_noun(len(cases), 'case')}"
    for conflict in found[:BY]:
        fact = conflict.majority
        targets = "; ".join(f"{named(new)} (case {', '.join(ids)})" for new, ids in conflict.targets)
        yield f"  {fact.subject.label}, {fact.relation.label}: {targets}"
    if len(found) > BY:
        yield f"  and {len(found) - BY:,} more; use --cases to list all"


def _duplicates(audit: Audit, published: PublishedAudit | None) -> Iterator[str]:
    extra = sum(len(group) - 1 for group in audit.duplicates)
    printed = f" (published: {published.duplicates:,})" if published and published.duplicates is not None else ""
    shown = ", ".join(f"({', '.join(group)})" for group in audit.duplicates[: 2 * BY])
    more = ", ..." if len(audit.duplicates) > 2 * BY else ""
    yield f"duplicates: {extra:,}{printed}{': ' if shown else ''}{shown}{more}"


def _missing(audit: Audit, published: PublishedAudit | None) -> Iterator[str]:
    if not audit.asked:
        yield "missing information: not applicable (no case has a multi-hop question with its hops)"
        return
    printed = (
        f" (published: {published.missing:,}, found manually)" if published and published.missing is not None else ""
    )
    of = count_noun(audit.asked, "case")
    yield f"missing information: {len(audit.missing):,} of {of} by our own rule{printed}"


def _agreed(agreed: RuleAgreement) -> str:
    both = agreed.both
    precision, recall = (f"{both / n:.1%}" if n else "N/A" for n in (agreed.flagged, agreed.rewritten))
    compared = count_noun(agreed.compared, "case")
    return (
        f"  against the corrected questions of {compared}: precision {precision} ({both:,} of "
        f"{agreed.flagged:,} flagged were rewritten), recall {recall} ({both:,} of {agreed.rewritten:,} rewritten)"
    )


def _sides(found: Contamination) -> tuple[tuple[str, tuple[ContaminatedHop, ...]], ...]:
    return ("contaminated while unedited", found.on_unedited), ("contaminated while edited", found.on_edited)


def _side_json(hits: Sequence[ContaminatedHop], printed: Victims | None) -> dict[str, Any]:
    cases, hops = tally(hits)
    return {
        "cases": cases,
        "sub_questions": hops,
        "published": list(printed) if printed else None,
        "hits": [{"case": hit.case, "hop": hit.hop, "fact": _said(hit.fact), "by": list(hit.by)} for hit in hits],
    }


def _reason(hit: ContaminatedHop) -> str:
    more = f" and {len(hit.by) - BY:,} more" if len(hit.by) > BY else ""
    return f"{_said(hit.fact)!r} is rewritten by case {', '.join(hit.by[:BY])}{more}"


def _said(fact: Fact) -> str:
    return fact.text or f"{fact.subject.label}, {fact.relation.label}: {named(fact)}"


def _pair(victims: Victims) -> str:
    return f"{victims[0]}/{victims[1]}"
