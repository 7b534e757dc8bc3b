"""The answers that are right in only one of two runs."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field, frozen

from ke_core.plugin import PHASES, Answer, Case, CaseRecord, Failure, Outcome, Phase, Query, Verdict
from ke_plugin_analysis.pairs import paired_styles


@frozen(kw_only=True)
class ChangedAnswer:
    """A query that is right in only one run. The pairs are of the first and second run."""

    case: str
    query: str
    question: str
    phase: Phase
    styles: tuple[str, str]
    verdicts: tuple[Verdict, Verdict]
    answers: tuple[str, str]

    @property
    def gained(self) -> bool:
        """True if the second run is right."""
        return self.verdicts[1] is Verdict.RIGHT


@define
class ChangedAnswers:
    """The queries that are right in only one run, added case by case.

    ``lost`` and ``gained``: the number of answers that are right only in the first or second run, and the number of
    cases with such answers. ``listed``: the answers themselves if ``listing``.
    """

    listing: bool = False
    lost: tuple[int, int] = (0, 0)
    gained: tuple[int, int] = (0, 0)
    listed: list[ChangedAnswer] = field(factory=list)

    def add(self, first: CaseRecord, second: CaseRecord) -> None:
        """Add a case."""
        found = [*_changes(first, second)]
        gained = sum(one.gained for one in found)
        lost = len(found) - gained
        self.lost = (self.lost[0] + lost, self.lost[1] + bool(lost))
        self.gained = (self.gained[0] + gained, self.gained[1] + bool(gained))
        self.listed += found if self.listing else []


def _changes(first: CaseRecord, second: CaseRecord) -> Iterator[ChangedAnswer]:
    """Yield the queries of a case that are right in only one run."""
    texts = {query.id: query.texts[0] for query in _queries(first.case)}
    for phase in PHASES:
        for styles in paired_styles(first.styles(phase), second.styles(phase)):
            for query, text in texts.items():
                one = first.outcomes.get((phase, styles[0], query))
                two = second.outcomes.get((phase, styles[1], query))
                if one is None or two is None or not _differ(one, two):
                    continue
                yield ChangedAnswer(
                    case=first.case.id,
                    query=query,
                    question=text,
                    phase=phase,
                    styles=styles,
                    verdicts=(one.judgment.verdict, two.judgment.verdict),
                    answers=(_text(one), _text(two)),
                )


def _queries(case: Case) -> Iterator[Query]:
    for probe in case.probes:
        yield from probe.queries
        yield from probe.given


def _differ(one: Outcome, two: Outcome) -> bool:
    """True if only one is right. An unsure verdict is no change."""
    verdicts = (one.judgment.verdict, two.judgment.verdict)
    return Verdict.UNSURE not in verdicts and (verdicts[0] is Verdict.RIGHT) != (verdicts[1] is Verdict.RIGHT)


def _text(outcome: Outcome) -> str:
    reply = outcome.reply
    if isinstance(reply, Failure):
        return f"{reply.error}: {reply.message}"
    return reply.text if isinstance(reply, Answer) else ""
