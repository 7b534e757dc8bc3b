"""What came back, and what it was worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Literal, Self

from attrs import Attribute, Factory, field, frozen

from ke_core.spec.errors import ContentRefused, ContextOverflow, NoLikelihood, ProcessLost, ServerDown, ServerRefused
from ke_core.spec.facts import OMITTED
from ke_core.spec.queries import Case, Phase, Probe, Query


@frozen(kw_only=True)
class Cost:
    """What one answer took: model calls, prompt tokens and generated tokens (cached calls count too)."""

    calls: int = 0
    prompt_tokens: int = 0
    tokens: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            tokens=self.tokens + other.tokens,
        )


@frozen(kw_only=True)
class Step:
    """One step of a method's way to its answer; ``retrieved`` are edit ids, best first, with ``scores``.

    ``kind`` is ``subquestion`` for a hop; ``answer`` is then what the method took for its answer, once it had weighed
    what was retrieved.
    """

    kind: str
    text: str
    retrieved: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    answer: str = field(default="", metadata={"omitted": True})  # it came later (ke_core.spec.codec)


@frozen(kw_only=True)
class Answer:
    """A text. ``outcome`` says how it ended: anything but ``answered`` is a wrong answer, counted apart.

    ``raw`` is what the model wrote, ``text`` the answer cut out of it; ``cut``: an answer that is taken as far as it
    goes, though the token limit came before its end.
    """

    text: str
    raw: str = ""
    steps: tuple[Step, ...] = ()
    outcome: Literal["answered", "unparsed", "hop-cap", "length"] = "answered"
    cost: Cost = Cost()
    cut: bool = field(default=False, metadata=OMITTED)


@frozen(kw_only=True)
class Scored:
    """Log-probabilities (natural, summed over tokens) of continuations, and their token counts. ``is_greedy``: whether
    every token is the most probable one given what precedes it; None where a server does not tell.
    """

    logprobs: tuple[float, ...]
    tokens: tuple[int, ...]
    is_greedy: tuple[bool | None, ...] = field(
        default=Factory(lambda self: (None,) * len(self.logprobs), takes_self=True), metadata=OMITTED
    )

    @property
    def parts(self) -> tuple[tuple[float, int, bool | None], ...]:
        """The three values of each continuation."""
        return tuple(zip(self.logprobs, self.tokens, self.is_greedy, strict=True))

    @classmethod
    def of(cls, parts: Iterable[tuple[float, int, bool | None]]) -> Self:
        """Make it from such ``parts``."""
        logprobs, tokens, is_greedy = zip(*parts, strict=True)
        return cls(logprobs=logprobs, tokens=tokens, is_greedy=is_greedy)


@frozen(kw_only=True)
class Failure:
    """An exception or a dead server in place of an answer; in n as wrong, counted apart."""

    error: str
    message: str

    @property
    def unscored(self) -> bool:
        """Whether log-probabilities were asked of something that gives none: not measured, and no failure."""
        return self.error == NoLikelihood.__name__

    @property
    def particular(self) -> bool:
        """Whether it is about this one prompt (too long, refused): many in a row are no sign of a dead server."""
        return self.error in (ContextOverflow.__name__, ContentRefused.__name__)

    @property
    def passing(self) -> bool:
        """Whether a server was down or refused every request, or the process was told to end: a retry may succeed."""
        return self.error in (ServerDown.__name__, ServerRefused.__name__, ProcessLost.__name__)


Reply = Answer | Scored | Failure


class Verdict(Enum):
    """RIGHT: the gold answer. STALE: the one that was right before the edit. UNSURE: the judge cannot say."""

    RIGHT = "right"
    WRONG = "wrong"
    STALE = "stale"
    UNSURE = "unsure"


@frozen(kw_only=True)
class Finding:
    """One thing a judge saw: a set member, an atomic fact, an error type. ``note``: its reason, in its own words."""

    item: str
    label: str
    entity: str | None = None
    note: str = field(default="", metadata={"omitted": True})  # it came later (ke_core.spec.codec)


@frozen(kw_only=True)
class Judgment:
    """A verdict and what it rests on."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()


@frozen(kw_only=True)
class Item:
    """What a judge is given: a query, with the answers that were right at that moment, and the reply.

    ``facts``: what the case says was true at that moment, in sentences.
    """

    query: Query
    reply: Reply
    facts: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        """The reply in words: a judge that is not ``scored`` is given no other."""
        assert isinstance(self.reply, Answer)
        return self.reply


@frozen(kw_only=True)
class Outcome:
    """A reply and its judgment."""

    reply: Reply
    judgment: Judgment


@frozen(kw_only=True)
class CaseRecord:
    """All that is on record of one case: what a metric sees.

    ``outcomes`` is keyed by (phase, style, query id). ``edited`` is false for a control. ``batch`` names the
    group of cases that shared one edited model. ``skipped`` is the reason why the case was not run.
    """

    case: Case
    batch: str
    edited: bool = True
    outcomes: Mapping[tuple[Phase, str, str], Outcome] = field(factory=dict)
    skipped: str | None = None

    def styles(self, phase: Phase) -> tuple[str, ...]:
        """The styles this case was asked in, in that phase, in order of first use."""
        return tuple(dict.fromkeys(style for at, style, _query in self.outcomes if at == phase))

    def styles_of(self, probe: Probe, phase: Phase) -> tuple[str, ...]:
        """Those in which any query of ``probe`` was asked."""
        names = [query.id for query in probe.queries]
        return tuple(s for s in self.styles(phase) if any((phase, s, name) in self.outcomes for name in names))


@frozen(kw_only=True)
class Peak:
    """Bytes by which the memory in use rose, at its highest, above where it stood when an edit began.

    ``host``: resident memory of the process. ``device``: tensors on accelerators. None where nobody could say.
    """

    host: int | None = None
    device: int | None = None


@frozen(kw_only=True)
class ForwardCalls:
    """How often a model of this process was run forward, be it through its last layers alone, and over how many tokens.

    Rows of a batch are one pass together; padding counts as tokens.
    """

    passes: int = 0
    tokens: int = 0

    def __sub__(self, before: ForwardCalls) -> ForwardCalls:
        return ForwardCalls(passes=self.passes - before.passes, tokens=self.tokens - before.tokens)


@frozen(kw_only=True)
class ModelRecord:
    """What is on record of one model as a whole: the unedited one (phase before), or one that was edited.

    ``edits`` were made in it, in ``seconds`` together; ``first`` if they were the first of their process.
    ``memory`` and ``passes``: what making the edits took; ``answering``: the memory that answers took, at most.
    ``replies``: to what the metric has asked of every model, by query; ``unedited``: the unedited model's.
    ``skipped``: why there is no such model.
    """

    batch: str
    phase: Phase = "after"
    edits: int = 0
    seconds: float = 0.0
    first: bool = False
    memory: Peak = Peak()
    passes: ForwardCalls | None = None
    answering: Peak = Peak()
    replies: Mapping[str, Reply] = field(factory=dict)
    unedited: Mapping[str, Reply] = field(factory=dict)
    skipped: str = ""


@frozen(kw_only=True)
class Value:
    """One observation of a metric: a number, or none and the reason.

    ``unit`` is what the bootstrap resamples: observations that depend on one another share it. The core adds the tags
    of the case, and of the query that ``QUERY_TAG`` names. A value of a whole probe is given ``Probe.tags``.
    """

    aspect: str
    value: float | None
    phase: Phase = "after"
    style: str = ""
    unit: str = ""
    tags: Mapping[str, str] = field(factory=dict)
    skipped_because: str = ""


@frozen(kw_only=True)
class Interval:
    """A confidence interval and how it was made."""

    low: float
    high: float
    level: float = 0.95


SHARE = "fraction"
"""The measure of a number between 0 and 1. Files hold it as it is; tables show it as a percentage."""


def no_percentage(_instance: object, attribute: Attribute[Any], value: str) -> None:
    """Raise ValueError for a measure of percent: a reader could not tell 0.5 % from a half."""
    if value == "%":
        raise ValueError(f"{attribute.name} cannot be '%': fractions are stored as numbers from 0 to 1 ({SHARE!r})")


@frozen(kw_only=True)
class MetricScore:
    """A metric's value over n observations. ``tags`` names the slice; empty for all.

    ``measure``: the unit of the value and of its interval (``s``, ``MiB``, ``fraction``); empty for a plain number.
    """

    metric: str
    aspect: str
    value: float | None
    n: int
    phase: Phase = "after"
    style: str = ""
    skipped: int = 0
    skipped_because: Mapping[str, int] = field(factory=dict)
    interval: Interval | None = None
    note: str = ""
    tags: Mapping[str, str] = field(factory=dict)
    measure: str = field(default=SHARE, validator=no_percentage)


QUERY_TAG = "query"
"""The tag by which a value says which query it is of: runs are paired by it."""
Details = Mapping[str, Any]
"""What an editor wants on record about an edit: JSON values only."""
