"""The lines of ``records.jsonl``. Lines are appended batch by batch and never changed.

Everything is keyed by (batch, case, phase, style); ``step`` counts rounds of sequential editing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from ke_core.spec.facts import OMITTED
from ke_core.spec.queries import Phase
from ke_core.spec.results import Failure, ForwardCalls, Judgment, Peak, Reply
from ke_core.spec.runspec import SCHEMA, Component

OWN = "own"
"""The style of an editor with its own prompts."""


@frozen(kw_only=True)
class _BatchLine:
    """What the lines of a batch have in common."""

    schema: int = SCHEMA
    step: int = 0
    batch: str


@frozen(kw_only=True)
class _CaseLine(_BatchLine):
    """What the lines of one case in one phase and style have in common."""

    case: str
    phase: Phase
    style: str

    @property
    def place(self) -> tuple[str, ...]:
        """The key of the line. If two lines have the same key, the later one counts."""
        return self.batch, self.case, self.phase, self.style


@frozen(kw_only=True)
class Batch(_BatchLine):
    """A batch of edits: its cases, the skipped ones with the reason, and its cost.

    ``refused``: the editor's reason by edit id. ``skipped``: the reason by case id. ``details``: JSON values that the
    editor records (context templates, update norms). ``unasked``: cases that were edited and that the plan does not
    ask. ``first``: the first edit of its process, so ``seconds`` includes what is computed once (covariance,
    templates). ``memory``: peak memory of the edit. ``passes``: forward calls of the edit; None for a remote model.
    ``failed``: the reason if the edits could not be made.
    """

    cases: tuple[str, ...]
    controls: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    edits: int
    refused: Mapping[str, str] = field(factory=dict)
    skipped: Mapping[str, str] = field(factory=dict)
    seconds: float = 0.0
    first: bool = False
    memory: Peak = field(factory=Peak)
    passes: ForwardCalls | None = field(default=None, metadata=OMITTED)
    failed: str = ""
    details: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class Replied(_CaseLine):
    """The replies of one case in one phase and style, by query id.

    ``seconds``: the wall time of the requests that were answered together, divided by their cases. ``memory``: the peak
    memory of all of them together. ``cached``: some completions came from the cache, so ``seconds`` is not the cost.
    """

    replies: Mapping[str, Reply]
    seconds: float = 0.0
    memory: Peak = field(factory=Peak, metadata=OMITTED)
    cached: bool = field(default=False, metadata=OMITTED)


@frozen(kw_only=True)
class Judged(_CaseLine):
    """The judgments of those replies, and the specification of the judge."""

    judge: Component
    judgments: Mapping[str, Judgment]


@frozen(kw_only=True)
class Probed(_BatchLine):
    """The replies of one model to a metric's own requests. They are not judged.

    ``replies``: by the query of the metric's request.
    """

    metric: str
    phase: Phase
    replies: Mapping[str, Reply]
    seconds: float = 0.0

    @property
    def place(self) -> tuple[str, ...]:
        """The key of the line. If two lines have the same key, the later one counts."""
        return self.batch, self.metric


@frozen(kw_only=True)
class Usage:
    """The usage of a model's server since the last such line, as the server counts it.

    ``id`` is unique, so a copied line does not count twice. Cached completions are not counted. ``retries``: attempts
    after the first. ``unmetered``: answers without a token count. ``price_in`` and ``price_out``: the price of a
    million prompt tokens and of a million generated tokens; 0 if unknown.
    """

    schema: int = SCHEMA
    id: str = ""
    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    tokens: int = 0
    unmetered: int = 0
    price_in: float = 0.0
    price_out: float = 0.0

    @property
    def priced(self) -> bool:
        """Whether a price is known."""
        return bool(self.price_in or self.price_out)

    @property
    def cost(self) -> float:
        """The cost, in the currency of the prices."""
        return (self.prompt_tokens * self.price_in + self.tokens * self.price_out) / 1e6


Record = Batch | Replied | Judged | Probed | Usage


def unanswered(record: Record) -> bool:
    """Whether a reply is a temporary failure of a server. A resumed run asks such requests again."""
    replies = record.replies.values() if isinstance(record, Replied | Probed) else ()
    return any(isinstance(reply, Failure) and reply.passing for reply in replies)
