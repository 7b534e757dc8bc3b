"""ReCoE's fact recall (Hua et al. 2024, section 5.2), from a judge's labels of the thoughts before an answer.

====================== ============================================================================
aspect                 value, for each fact of a reply: n counts facts, the bootstrap resamples cases
====================== ============================================================================
relatedness            1 if the case's facts are about it: consistent or inconsistent
consistency            1 if they agree with it
consistency-of-related the same, for related facts only
pre-edit-...           the same of the unedited model, whose facts are compared with the pre-edit ones
====================== ============================================================================

The case's facts are the counterfactual ones. Replies for an edit's own fact, which needs no thoughts, are excluded.
"""

from __future__ import annotations

from collections.abc import Iterator

from ke_benchmarks import CONSISTENT, FACT_LABELS, FACT_UNSURE, NO_THOUGHTS, UNRELATED
from ke_core.plugin import EFFICACY, CaseRecord, Observed, Value, observed
from ke_plugin_fact_recall import CONSISTENCY, OF_RELATED, PRE_EDIT, RELATED

SILENT = "no thoughts before the answer"
UNJUDGED = "the judge labeled no facts"
UNSURE = "the judge gave no valid label"
NOT_RELATED = "not related to the case's facts"


class FactRecall:
    """Computes values from records."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield three values for each fact; without facts, three missing values with the reason."""
        for seen in observed(record, "before", "after"):
            if seen.probe.aspect != EFFICACY:
                for label in _labels(seen) or [None]:
                    yield from _three(seen, label)


def _labels(seen: Observed) -> list[str | None]:
    findings = seen.outcome.judgment.findings if seen.outcome else ()
    return [finding.label for finding in findings if finding.label in FACT_LABELS]


def _three(seen: Observed, label: str | None) -> Iterator[Value]:
    why = _missing(seen) if label is None else UNSURE if label == FACT_UNSURE else ""
    right, related = float(label == CONSISTENT), float(label != UNRELATED)
    name = PRE_EDIT if seen.phase == "before" else ""
    yield seen.value(f"{name}{RELATED}", None if why else related, why)
    yield seen.value(f"{name}{CONSISTENCY}", None if why else right, why)
    off = why or ("" if related else NOT_RELATED)
    yield seen.value(f"{name}{OF_RELATED}", None if off else right, off)


def _missing(seen: Observed) -> str:
    findings = seen.outcome.judgment.findings if seen.outcome else ()
    silent = any(finding.label == NO_THOUGHTS for finding in findings)
    return seen.wordless or (SILENT if silent else UNJUDGED)
