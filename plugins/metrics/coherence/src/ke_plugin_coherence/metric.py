"""ReCoE's coherence (Hua et al. 2024, section 5.3): 1 for each reply whose thoughts support its answer, else 0.

Whether the thoughts are true does not matter. Thoughts that came to no answer support none. ``coherence`` also stands
by scheme (``coherence-sorting``), since the paper's average is the plain mean over its six schemes. An edit's own fact,
asked for by itself, takes no thoughts: those replies are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve, field, frozen

from ke_core.plugin import (
    EFFICACY,
    NO_THOUGHTS,
    SUPPORT,
    SUPPORT_LABELS,
    SUPPORT_UNSURE,
    CaseRecord,
    Observed,
    Value,
    observed,
)
from ke_plugin_coherence import COHERENCE, SCHEMES, CoherenceConfig

SILENT = "nothing was thought before the answer"
UNJUDGED = "the judge was not asked whether the thoughts support the answer"
UNSURE = "the judge gave no label of the set"


@frozen(kw_only=True)
class Coherence:
    """Reads records; nothing else."""

    config: CoherenceConfig = field(factory=CoherenceConfig)

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """One for each reply, and once more under its scheme's name."""
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
