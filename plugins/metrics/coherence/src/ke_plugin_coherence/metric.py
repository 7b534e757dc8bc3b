"""ReCoE's coherence (Hua et al. 2024, section 5.3): 1 for each reply whose thoughts support its answer, otherwise 0.

Whether the thoughts are true does not matter. Thoughts without an answer support none. ``coherence`` is also computed
by scheme (``coherence-sorting``), because the paper's average is the unweighted mean over its six schemes. Replies for
an edit's own fact, which needs no thoughts, are excluded.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from ke_benchmarks import NO_THOUGHTS, SUPPORT, SUPPORT_LABELS, SUPPORT_UNSURE
from ke_core.plugin import EFFICACY, CaseRecord, Observed, Value, observed
from ke_plugin_coherence import COHERENCE, SCHEMES

SILENT = "no thoughts before the answer"
UNJUDGED = "the judge did not label whether the thoughts support the answer"
UNSURE = "the judge gave no valid label"


class Coherence:
    """Computes values from records."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield one value for each reply, and another for its scheme."""
        scheme = record.case.tags.get("scheme", "")
        for seen in observed(record, "before", "after"):
            if seen.probe.aspect != EFFICACY:
                value = _value(seen)
                yield value
                if scheme in SCHEMES:
                    yield evolve(value, aspect=f"{COHERENCE}-{scheme}")


def _value(seen: Observed) -> Value:
    labels = [finding.label for finding in seen.outcome.judgment.findings] if seen.outcome else []
    given = [label for label in labels if label in SUPPORT_LABELS]
    if given and given[0] != SUPPORT_UNSURE:
        return seen.value(COHERENCE, float(given[0] == SUPPORT))
    why = UNSURE if given else SILENT if NO_THOUGHTS in labels else UNJUDGED
    return seen.value(COHERENCE, None, seen.wordless or why)
