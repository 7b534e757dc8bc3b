"""Metric ``long-answer``: how similar generated texts are to long gold answers, and how fluent they are."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import EFFICACY, PARAPHRASE, BadConfig, Metric, MetricSpec, hookimpl, option

SUB_QUESTION, WHOLE_TEXT = "sub-question", "whole-text"
GROUPS = {EFFICACY: "efficacy", PARAPHRASE: "paraphrase", SUB_QUESTION: "sub-questions", WHOLE_TEXT: "whole text"}
"""Aspect of a probe to its column."""
ROUGE, RECALL, BERTSCORE, COSINE, ENTROPY = "-rouge-l", "-rouge-l-recall", "-bertscore", "-cosine", "-fluency"
"""Suffixes of the aspects."""


@frozen(kw_only=True)
class LongAnswerConfig:
    """Options: the encoder for the scores that need one."""

    encoder: str = option(
        "sentence encoder for BERTScore and cosine: minilm-l6, a local folder or a Hub id; "
        "default: none, and only ROUGE-L and fluency are computed",
        "",
        file=True,
        words=("minilm-l6",),
    )


def build(config: LongAnswerConfig) -> Metric:
    """Build the metric, and load its encoder if one is named. Raises ModelUnavailable and BadConfig."""
    from ke_plugin_long_answer.metric import LongAnswer  # noqa: PLC0415  built late

    if not config.encoder:
        return LongAnswer()
    try:
        from ke_memory.plugin import load_encoder  # noqa: PLC0415  imports torch
    except ImportError as missing:
        raise BadConfig(
            f"long-answer.encoder: {config.encoder} needs ke-memory: {missing}",
            hint='install it: pip install "ke-plugin-long-answer[encoder]"',
        ) from missing
    return LongAnswer(encoder=load_encoder(config.encoder))


def _columns(suffix: str) -> dict[str, str]:
    return {aspect + suffix: column for aspect, column in GROUPS.items()}


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``long-answer``."""
    return [
        MetricSpec(
            name="long-answer",
            summary="ROUGE-L, BERTScore, embedding cosine and fluency of long answers",
            config=LongAnswerConfig,
            build=build,
            cite="Lin 2004, ROUGE; Zhang et al. 2020, BERTScore, arXiv:1904.09675; Deng et al. 2025, UnKE",
            columns={aspect: f"{column} (ROUGE-L)" for aspect, column in _columns(ROUGE).items()},
            tables={
                "ROUGE-L recall: rewards long answers": _columns(RECALL),
                "BERTScore F1": _columns(BERTSCORE),
                "cosine of sentence embeddings": _columns(COSINE),
                "fluency: entropy of bigrams and trigrams": _columns(ENTROPY),
            },
            measures=dict.fromkeys(_columns(ENTROPY), "bits"),
        )
    ]
