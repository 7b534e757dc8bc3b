"""Metric ``wild``: edit success under teacher forcing next to the success of generated answers."""

from __future__ import annotations

from ke_core.plugin import EFFICACY, PARAPHRASE, MetricSpec, hookimpl

TOKENS, ALL_TOKENS, GENERATED, INFLATION = "-tokens", "-all-tokens", "-generated", "-inflation"
"""Suffixes of the aspects."""


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``wild``."""
    return [
        MetricSpec(
            name="wild",
            summary="edit success with teacher forcing, as earlier papers score, next to generated answers (WILD)",
            build="ke_plugin_wild.metric:Wild",
            cite="Yang et al. 2025, The Mirage of Model Editing, arXiv:2502.11177",
            by=("source",),
            columns={
                EFFICACY + TOKENS: "efficacy (teacher forcing)",
                EFFICACY + GENERATED: "efficacy (generated)",
                PARAPHRASE + TOKENS: "paraphrase (teacher forcing)",
                PARAPHRASE + GENERATED: "paraphrase (generated)",
            },
            tables={
                "teacher forcing minus generated": {
                    EFFICACY + INFLATION: "efficacy (inflation)",
                    PARAPHRASE + INFLATION: "paraphrase (inflation)",
                },
                "teacher forcing, all tokens of the target": {
                    EFFICACY + ALL_TOKENS: "efficacy (all tokens)",
                    PARAPHRASE + ALL_TOKENS: "paraphrase (all tokens)",
                },
            },
            counts={
                EFFICACY + GENERATED: "edits generated correctly",
                PARAPHRASE + GENERATED: "paraphrases generated correctly",
            },
            contrary=frozenset({EFFICACY + INFLATION, PARAPHRASE + INFLATION}),
            signed=frozenset({EFFICACY + INFLATION, PARAPHRASE + INFLATION}),
        )
    ]
