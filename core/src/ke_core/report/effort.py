"""How the answers of a run ended and what they took: the same for every benchmark, and read off the records alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define

from ke_core.data.records import Replied
from ke_core.data.results import SHARE, Answer, Failure, MetricScore

NO_METRIC = ""
"""What stands in place of a metric's name: no metric computes these."""
ANSWERS_TITLE = "answers"
HEADINGS = {
    "unparsed": "unparsed",
    "cut-off": "cut off",
    "calls": "model calls",
    "prompt-tokens": "tokens read",
    "tokens": "tokens written",
    "seconds": "time",
}


@define(kw_only=True)
class Effort:
    """Sums over the replies of the edited models in one style.

    ``replies`` counts answers and failures, ``answers`` the former. ``unparsed``: the expected form was not there.
    ``cut``: too many hops, or the token limit. The rest is of answers; ``seconds`` is the time that passed while they
    were made, divided among those made together.
    """

    replies: int = 0
    answers: int = 0
    unparsed: int = 0
    cut: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, replied: Replied) -> None:
        """Count one line of the record."""
        for reply in replied.replies.values():
            self.replies += isinstance(reply, Answer) or (isinstance(reply, Failure) and not reply.unscored)
            if not isinstance(reply, Answer):
                continue
            self.answers += 1
            self.unparsed += reply.outcome == "unparsed"
            self.cut += reply.outcome in ("hop-cap", "length")
            self.calls += reply.cost.calls
            self.prompt_tokens += reply.cost.prompt_tokens
            self.tokens += reply.cost.tokens
            self.seconds += replied.seconds / len(replied.replies)


def effort_scores(efforts: Mapping[str, Effort]) -> Iterable[MetricScore]:
    """A mean over the questions for each style and each of ``HEADINGS``; shares of all replies, the rest of answers."""
    for style, effort in efforts.items():
        sums: dict[str, tuple[float, int, str]] = {
            "unparsed": (effort.unparsed, effort.replies, SHARE),
            "cut-off": (effort.cut, effort.replies, SHARE),
            "calls": (effort.calls, effort.answers, ""),
            "prompt-tokens": (effort.prompt_tokens, effort.answers, ""),
            "tokens": (effort.tokens, effort.answers, ""),
            "seconds": (effort.seconds, effort.answers, "s"),
        }
        for aspect, (total, n, measure) in sums.items():
            if n:
                yield MetricScore(metric=NO_METRIC, aspect=aspect, value=total / n, n=n, style=style, measure=measure)
