"""The lines of ``records.jsonl``: what happened, appended batch by batch, never changed.

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
"""The style of an editor that brings its own prompts."""


@frozen(kw_only=True)
class Batch:
    """An edit was made: which cases it covers, which were left out and why, and what it took.

    ``refused`` maps edit ids to the editor's reason, ``skipped`` case ids to theirs. ``details`` is what the
    editor wants on record (context templates, update norms): JSON values. ``unasked`` are cases whose edits
    were made now but which the plan does not ask. ``first``: nothing was edited before in that process, so that what is
    computed once (statistics, templates) is in its ``seconds``. ``memory``: what making the edits took. ``passes``: how
    often the model was run meanwhile; None where that cannot be told (a server's model).
    ``failed``: why the edits could not be made after all.
    """

    schema: int = SCHEMA
    step: int = 0
    batch: str
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
class Replied:
    """The replies of one case in one phase and style, by query id.

    ``seconds``: the wall time, divided evenly among the questions that were answered together. ``memory``: the peak
    while all of them were answered. ``cached``: some completions came from the cache, so ``seconds`` is no cost.
    """

    schema: int = SCHEMA
    step: int = 0
    batch: str
    case: str
    phase: Phase
    style: str
    replies: Mapping[str, Reply]
    seconds: float = 0.0
    memory: Peak = field(factory=Peak, metadata=OMITTED)
    cached: bool = field(default=False, metadata=OMITTED)

    @property
    def place(self) -> tuple[str, ...]:
        """What was asked of whom: of two lines with the same the later counts."""
        return self.batch, self.case, self.phase, self.style


@frozen(kw_only=True)
class Judged:
    """The judgments of those replies, with the judge's own specification."""

    schema: int = SCHEMA
    step: int = 0
    batch: str
    case: str
    phase: Phase
    style: str
    judge: Component
    judgments: Mapping[str, Judgment]

    @property
    def place(self) -> tuple[str, ...]:
        """That of the line which is judged."""
        return self.batch, self.case, self.phase, self.style


@frozen(kw_only=True)
class Probed:
    """The replies of one model to what a metric asks of every model, beside the cases; never judged.

    ``replies`` go by the query of the metric's ask.
    """

    schema: int = SCHEMA
    step: int = 0
    batch: str
    metric: str
    phase: Phase
    replies: Mapping[str, Reply]
    seconds: float = 0.0

    @property
    def place(self) -> tuple[str, ...]:
        """What was asked of whom: of two lines with the same the later counts."""
        return self.batch, self.metric


@frozen(kw_only=True)
class Usage:
    """What a model's server was asked since the last such line, by the server's own count: what is paid for.

    ``id`` is of this line alone, so that a copy of it does not count twice. What came out of the cache is not in it.
    ``retries`` are tries beyond the first, ``unmetered`` answers came without a count of tokens. ``price_in`` and
    ``price_out`` are of a million prompt tokens and of a million generated ones; 0 where nobody has said one.
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
        """Whether anybody has said a price."""
        return bool(self.price_in or self.price_out)

    @property
    def cost(self) -> float:
        """In the currency of the prices."""
        return (self.prompt_tokens * self.price_in + self.tokens * self.price_out) / 1e6


Record = Batch | Replied | Judged | Probed | Usage


def unanswered(record: Replied | Probed) -> bool:
    """Whether a reply is a server's trouble that may be over by now: a run that is started again asks this again."""
    return any(isinstance(reply, Failure) and reply.passing for reply in record.replies.values())
