"""Metric ``long-answer``: how similar generated texts are to long gold answers, and how fluent they are."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import EFFICACY, PARAPHRASE, BadConfig, Metric, MetricSpec, hookimpl, option

SUB_QUESTION, WHOLE_TEXT = "sub-question", "whole-text"
GROUPS = {EFFICACY: "efficacy", PARAPHRASE: "paraphrase", SUB_QUESTION: "sub-questions", WHOLE_TEXT: "whole text"}
"""Aspect of a probe to its column."""
ROUGE, RECALL = "-rouge-", "-recall"
BERTSCORE, COSINE, ENTROPY = "-bertscore", "-cosine", "-fluency"
"""Suffixes of the aspects: ``-rouge-1``, ``-rouge-1-recall`` and so on."""


@frozen(kw_only=True)
class LongAnswerConfig:
    """Options: the encoder for the scores that need one."""

    encoder: str = option(
        "sentence encoder for BERTScore and cosine: minilm-l6, a local folder or a Hub id; "
        "default: none, and only ROUGE and fluency are computed",
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


def _columns(suffix: str, what: str = "") -> dict[str, str]:
    return {aspect + suffix: column + what for aspect, column in GROUPS.items()}


def _words_and_pairs(suffix: str = "") -> dict[str, str]:
    return _columns(f"{ROUGE}1{suffix}", " (1)") | _columns(f"{ROUGE}2{suffix}", " (2)")


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``long-answer``."""
    return [
        MetricSpec(
            name="long-answer",
            summary="ROUGE, BERTScore, embedding cosine and fluency of long answers",
            config=LongAnswerConfig,
            build=build,
            cite="Lin 2004, ROUGE; Zhang et al. 2020, BERTScore, arXiv:1904.09675; Deng et al. 2025, UnKE",
            columns=_columns(f"{ROUGE}l", " (ROUGE-L)"),
            tables={
                "F1 of ROUGE-1 and ROUGE-2": _words_and_pairs(),
                "recall of ROUGE-L: rewards long answers": _columns(f"{ROUGE}l{RECALL}"),
                "recall of ROUGE-1 and ROUGE-2: rewards long answers": _words_and_pairs(RECALL),
                "BERTScore F1": _columns(BERTSCORE),
                "cosine of sentence embeddings": _columns(COSINE),
                "fluency: entropy of bigrams and trigrams": _columns(ENTROPY),
            },
            measures=dict.fromkeys(_columns(ENTROPY), "bits"),
        )
    ]
