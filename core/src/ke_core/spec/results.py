"""Replies, judgments, and scores."""

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
    """The cost of one answer: model calls, prompt tokens, generated tokens. Cached calls count too."""

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
    """One step of a method. ``retrieved``: edit ids with their ``scores``, best first.

    ``kind`` is ``subquestion`` for a hop. ``answer`` is then the method's answer to it after retrieval.
    """

    kind: str
    text: str
    retrieved: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    answer: str = field(default="", metadata={"omitted": True})  # it came later (ke_core.spec.codec)


@frozen(kw_only=True)
class Answer:
    """A text answer. If ``outcome`` is not ``answered``, the answer is wrong and counted separately too.

    ``raw``: the generated text. ``text``: the answer in it. ``cut``: the token limit truncated it, and it counts.
    """

    text: str
    raw: str = ""
    steps: tuple[Step, ...] = ()
    outcome: Literal["answered", "unparsed", "hop-cap", "length"] = "answered"
    cost: Cost = Cost()
    cut: bool = field(default=False, metadata=OMITTED)


@frozen(kw_only=True)
class Scored:
    """Log-probabilities (natural, summed over tokens) of continuations, and their token counts.

    ``matches``: how many of them are the most probable one given the text before (None: a server does not tell).
    """

    logprobs: tuple[float, ...]
    tokens: tuple[int, ...]
    matches: tuple[int | None, ...] = field(
        default=Factory(lambda self: (None,) * len(self.logprobs), takes_self=True), metadata=OMITTED
    )

    @property
    def is_greedy(self) -> tuple[bool | None, ...]:
        """Whether greedy decoding would write each continuation: all of its tokens match."""
        return tuple(None if n is None else n == of for n, of in zip(self.matches, self.tokens, strict=True))

    @property
    def parts(self) -> tuple[tuple[float, int, int | None], ...]:
        """The three values of each continuation."""
        return tuple(zip(self.logprobs, self.tokens, self.matches, strict=True))

    @classmethod
    def of(cls, parts: Iterable[tuple[float, int, int | None]]) -> Self:
        """Create it from such ``parts``."""
        logprobs, tokens, matches = zip(*parts, strict=True)
        return cls(logprobs=logprobs, tokens=tokens, matches=matches)


@frozen(kw_only=True)
class Failure:
    """An exception or a failed server in place of an answer. It counts as wrong, and separately."""

    error: str
    message: str

    @property
    def unscored(self) -> bool:
        """Whether the model returns no log-probabilities: then the value is missing and not a failure."""
        return self.error == NoLikelihood.__name__

    @property
    def particular(self) -> bool:
        """Whether the failure concerns this prompt (too long, refused) and not the server."""
        return self.error in (ContextOverflow.__name__, ContentRefused.__name__)

    @property
    def passing(self) -> bool:
        """Whether another attempt may succeed: the server failed, or the process was stopped."""
        return self.error in (ServerDown.__name__, ServerRefused.__name__, ProcessLost.__name__)


Reply = Answer | Scored | Failure


class Verdict(Enum):
    """RIGHT: the gold answer. PRE_EDIT: the pre-edit answer. UNSURE: the judge cannot decide."""

    RIGHT = "right"
    WRONG = "wrong"
    PRE_EDIT = "pre-edit"
    UNSURE = "unsure"


@frozen(kw_only=True)
class Finding:
    """One finding of a judge: a set member, an atomic fact, an error type. ``note``: the judge's reason."""

    item: str
    label: str
    entity: str | None = None
    note: str = field(default="", metadata={"omitted": True})  # it came later (ke_core.spec.codec)


@frozen(kw_only=True)
class Judgment:
    """A verdict and the findings behind it."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()


@frozen(kw_only=True)
class Item:
    """The input of a judge: a query with the answers that were right in that phase, and the reply.

    ``facts``: sentences that were true in that phase according to the case.
    """

    query: Query
    reply: Reply
    facts: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        """The text answer. Only judges with ``scored`` get other replies."""
        assert isinstance(self.reply, Answer)
        return self.reply


@frozen(kw_only=True)
class Outcome:
    """A reply and its judgment."""

    reply: Reply
    judgment: Judgment


@frozen(kw_only=True)
class CaseRecord:
    """Everything that is recorded about one case: the input of a metric.

    ``outcomes`` is keyed by (phase, style, query id). ``edited`` is false for a control. ``batch``: the group of cases
    that shared one edited model. ``skipped``: the reason if the case was not run.
    """

    case: Case
    batch: str
    edited: bool = True
    outcomes: Mapping[tuple[Phase, str, str], Outcome] = field(factory=dict)
    skipped: str | None = None

    def styles(self, phase: Phase) -> tuple[str, ...]:
        """Return the styles of this case in that phase, in order of first use."""
        return tuple(dict.fromkeys(style for at, style, _query in self.outcomes if at == phase))

    def styles_of(self, probe: Probe, phase: Phase) -> tuple[str, ...]:
        """Return the styles in which any query of ``probe`` was asked."""
        names = [query.id for query in probe.queries]
        return tuple(s for s in self.styles(phase) if any((phase, s, name) in self.outcomes for name in names))


@frozen(kw_only=True)
class Peak:
    """The rise of memory during an edit, in bytes: of the process (``host``) and of accelerators; None if unknown."""

    host: int | None = None
    device: int | None = None


@frozen(kw_only=True)
class ForwardCalls:
    """The number of forward calls of a local model, complete or partial, and their tokens.

    A batch is one call. Padding counts as tokens.
    """

    passes: int = 0
    tokens: int = 0

    def __sub__(self, before: ForwardCalls) -> ForwardCalls:
        return ForwardCalls(passes=self.passes - before.passes, tokens=self.tokens - before.tokens)


@frozen(kw_only=True)
class ModelRecord:
    """Everything that is recorded about one model as a whole: the unedited one (phase before), or an edited one.

    ``edits``: their number, made in ``seconds``. ``first``: they were the first of their process. ``memory`` and
    ``passes``: the cost of the edits. ``answering``: peak memory of the answers. ``replies``: to the metric's own
    requests, by query. ``unedited``: those of the unedited model. ``skipped``: the reason if there is no such model.
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
    """One observation of a metric: a number, or None and the reason.

    ``unit``: the resampling unit of the bootstrap, shared by dependent observations. The core adds the tags of case
    and query (``QUERY_TAG``). A value of a whole probe gets ``Probe.tags``.
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
    """A confidence interval."""

    low: float
    high: float
    level: float = 0.95


SHARE = "fraction"
"""The measure of a number between 0 and 1. Tables show it as a percentage."""


def no_percentage(_instance: object, attribute: Attribute[Any], value: str) -> None:
    """Raise ValueError for percent: 0.5 would be ambiguous."""
    if value == "%":
        raise ValueError(f"{attribute.name} cannot be '%': fractions are stored as numbers from 0 to 1 ({SHARE!r})")


@frozen(kw_only=True)
class MetricScore:
    """A metric's value over n observations. ``tags`` names the slice; empty for all.

    ``measure``: the unit of the value and of its interval (``s``, ``MiB``, ``fraction``); empty for a plain number.
    ``binary``: every observation is 0 or 1.
    """

    metric: str
    aspect: str
    value: float | None
    n: int
    binary: bool = False
    phase: Phase = "after"
    style: str = ""
    skipped: int = 0
    skipped_because: Mapping[str, int] = field(factory=dict)
    interval: Interval | None = None
    note: str = ""
    tags: Mapping[str, str] = field(factory=dict)
    measure: str = field(default=SHARE, validator=no_percentage)


QUERY_TAG = "query"
"""The tag that names the query of a value. Runs are paired by it."""
Details = Mapping[str, Any]
"""Details that an editor records about an edit: JSON values only."""
