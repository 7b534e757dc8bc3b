"""Numbers of a table that come from a dataset alone: how much of what there is, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ke_benchmarks.audit.bank import as_rule
from ke_benchmarks.audit.contamination import contamination, draw, tally
from ke_core.app import count_cases
from ke_core.plugin import EFFICACY, BadData, Case

PER_CASE = "queries per case"
TESTED, TESTED_EACH = "tested queries per case", "tested queries per case and aspect"
"""Of what follows from an edit: asked after it, and not the edit's own question."""
AUDIT_SEED = 100
"""The seed of the published lists of edited cases (MQuAKE-Remastered section 3.1)."""
AUDIT_RULE = as_rule("majority")
"""Of the rules of ``ke_benchmarks.audit.bank`` the one under which MQuAKE-CF-3k has every published count."""


def counted(cases: Sequence[Case]) -> dict[str, float]:
    """What ``ke datasets stats`` counts, and ``queries per case``: of all, and of each aspect (``...: ASPECT``).

    Then ``tested queries per case``, and these for a mean aspect (``... and aspect``).
    """
    asked = Counter(probe.aspect for case in cases for probe in case.probes for _query in probe.queries)
    each = {f"{PER_CASE}: {aspect}": number / len(cases) for aspect, number in asked.items()}
    tests = [probe for case in cases for probe in case.probes if probe.asked("after") and probe.aspect != EFFICACY]
    tested = sum(len(probe.queries) for probe in tests) / len(cases)
    mean = {TESTED: tested, TESTED_EACH: tested / len({probe.aspect for probe in tests})} if tests else {}
    return {**count_cases(cases), PER_CASE: asked.total() / len(cases), **each, **mean}


def audited(cases: Sequence[Case], edited: int) -> dict[str, float]:
    """Contaminated cases and sub-questions with so many cases edited, among the unedited and the edited ones."""
    if edited > len(cases):
        raise BadData(f"{edited} edited cases of {len(cases)}", hint="this dataset is smaller than the paper's")
    found = contamination(cases, draw(cases, edited, AUDIT_SEED), AUDIT_RULE)
    numbers = (*tally(found.on_unedited), *tally(found.on_edited))
    names = ("unedited cases", "unedited sub-questions", "edited cases", "edited sub-questions")
    return dict(zip(names, map(float, numbers), strict=True))
