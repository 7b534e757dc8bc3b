"""Metric ``belief``: whether an edited model believes its edits, or only repeats them."""

from __future__ import annotations

from collections.abc import Iterable

from ke_core.plugin import Case, DeriveProbes, MetricSpec, hookimpl

NAME = "belief"
CHOICE, REVERSAL, CONFLICT, BELIEVED = "choice", "reversal", "conflict", "believed"
OLD, UNSURE, FLIPS, TWO = "-old", "-unsure", "-flips", "-of-two"
"""Suffixes of the aspects."""
CONTEXTS = ("supporting", "irrelevant", "contradicting")


def derive(_config: object, cases: Iterable[Case]) -> DeriveProbes:
    """Return a function from a case to the belief tests of its edits."""
    from ke_plugin_belief.probes import BeliefProbes  # noqa: PLC0415  built late

    return BeliefProbes(cases)


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``belief``."""
    return [
        MetricSpec(
            name=NAME,
            summary="whether edits are believed: multiple choice, reversal, conflicting context",
            build="ke_plugin_belief.metric:Belief",
            probes=derive,
            cite="Gu et al. 2026, SA-MCQ, arXiv:2604.05995 (multiple choice); Ma et al. 2023, BAKE, arXiv:2310.10322 "
            "(reversal)",
            columns={CHOICE: "chosen", REVERSAL: "reversal", CONFLICT: "despite conflict", BELIEVED: "believed"},
            tables={
                "multiple choice": {
                    CHOICE: "new chosen",
                    CHOICE + OLD: "old chosen",
                    CHOICE + UNSURE: "unsure chosen",
                    CHOICE + FLIPS: "order flips",
                    CHOICE + TWO: "new of two",
                },
                "context": {
                    **{f"{CHOICE}-{context}": f"new chosen, {context}" for context in CONTEXTS},
                    CONFLICT + OLD: "old despite conflict",
                },
            },
            counts={BELIEVED: "edits believed"},
            contrary=frozenset({CHOICE + OLD, CHOICE + UNSURE, CHOICE + FLIPS, CONFLICT + OLD}),
        )
    ]
