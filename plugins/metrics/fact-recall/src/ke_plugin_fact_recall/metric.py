"""ReCoE's fact recall (Hua et al. 2024, section 5.2), from what a judge found in the thoughts before an answer.

====================== ============================================================================
aspect                 value, for each fact of a reply: n is of facts, and the bootstrap draws cases
====================== ============================================================================
relatedness            1 if the case's facts speak of it: consistent or inconsistent
consistency            1 if they agree with it
consistency-of-related the same, of those they speak of
pre-edit-...           the same of the unedited model, whose facts are compared with the pre-edit ones
====================== ============================================================================

The case's facts are the counterfactual ones. An edit's own fact, asked for by itself, needs no thoughts: those replies
are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from ke_core.plugin import (
    CONSISTENT,
    EFFICACY,
    FACT_LABELS,
    FACT_UNSURE,
    NO_THOUGHTS,
    UNRELATED,
    CaseRecord,
    Observed,
    Value,
    observed,
)
from ke_plugin_fact_recall import CONSISTENCY, OF_RELATED, PRE_EDIT, RELATED, FactRecallConfig

SILENT = "nothing was thought before the answer"
UNJUDGED = "the judge was not asked about facts, or there were none"
UNSURE = "the judge gave no label of the set"
NOT_RELATED = "the case's facts do not speak of it"


@frozen(kw_only=True)
class FactRecall:
    """Reads records; nothing else."""

    config: FactRecallConfig = field(factory=FactRecallConfig)

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Three for each fact; without facts, three that say why."""
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
