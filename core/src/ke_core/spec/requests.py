"""The requests of procedures, and their results.

A method that uses a model is a generator: it yields a request and receives the result. The engine advances hundreds
of such procedures concurrently and runs their requests in batches::

    def solve(self, request: Question) -> Procedure[Answer]:
        written: Generated = yield Generate(prompt=..., stop=("\\n",), max_tokens=64)
        hits: tuple[Hit, ...] = yield Nearest(memory=self.memory, text=written.text)
        return Answer(text=...)

=========== =====================
request     result
=========== =====================
Generate    Generated
Score       Scored
Embed       numpy array [n, d], float32
Nearest     tuple[Hit, ...], best first
=========== =====================

If a request fails, its error is raised inside the generator. An error that is not caught there becomes a ``Failure``.
A generator must not change the model, because the requests of others are under way.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from attrs import evolve, field, frozen, validators

from ke_core.spec.facts import OMITTED
from ke_core.spec.prompts import Prompt
from ke_core.spec.queries import Form, one_for_each

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
Procedure = Generator["Request", Any, T]


class Encoder(Protocol):
    """Embeds texts. ``id`` identifies the weights and the pooling."""

    @property
    def id(self) -> str:
        """Identifies the weights and the pooling. It is part of the cache key of embeddings."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors, float32 [n, d]."""


class Memory(Protocol):
    """Texts by id, searched by meaning. ``ke_memory.FactMemory`` implements it."""

    def search(self, texts: Sequence[str], *, k: int, hidden: Sequence[frozenset[str]]) -> list[tuple[Hit, ...]]:
        """Return the ``k`` nearest rows for each text, best first, without the hidden ids of that text."""


@frozen(kw_only=True)
class Hit:
    """One retrieved row: its id, its text, and its score (higher is nearer)."""

    id: str
    text: str
    score: float


@frozen(kw_only=True)
class Generate:
    """Continue ``prompt`` until a stop string, the end-of-text token or ``max_tokens``.

    The result contains neither the stop string nor the prompt. ``temperature`` 0 is greedy. The engine sets ``seed``
    from the run's seed, the procedure's id and the number of the call, so samples do not depend on the batch.
    """

    prompt: str
    max_tokens: int = field(default=64, validator=validators.ge(1))
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    top_k: int = 0
    seed: int | None = None


@frozen(kw_only=True)
class Generated:
    """The generated text, the reason of its end, and its token counts."""

    text: str
    finish: Literal["stop", "eos", "length"]
    prompt_tokens: int = 0
    tokens: int = 0


@frozen(kw_only=True)
class Score:
    """Score each of ``continuations`` after ``prompt``, or after its own one of ``prompts``.

    A continuation begins with a space. After an empty prompt, a text is scored as a whole (rolling likelihood): each
    token is predicted once, the first one from the beginning-of-text token.
    """

    prompt: str = ""
    continuations: tuple[str, ...] = field(validator=validators.min_len(1))
    prompts: tuple[str, ...] = field(default=(), validator=one_for_each)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Each continuation with its prompt before it."""
        return tuple(zip(self.prompts or (self.prompt,) * len(self.continuations), self.continuations, strict=True))


@frozen(kw_only=True)
class Embed:
    """Vectors of texts."""

    encoder: Encoder
    texts: tuple[str, ...]


@frozen(kw_only=True)
class Nearest:
    """The ``k`` rows of a memory nearest to ``text``, without those in ``hidden``."""

    memory: Memory
    text: str
    k: int = field(default=1, validator=validators.ge(1))
    hidden: frozenset[str] = frozenset()


Request = Generate | Score | Embed | Nearest


@frozen(kw_only=True)
class Question:
    """A question for an edited model.

    An editor gets ``id``, ``case`` and ``query`` as hashes, each used once. ``prompt``: the benchmark's prompt
    (few-shot text and question). A method with its own prompts reads ``texts``. ``own``: the edits of the case, in
    order; empty unless the editor declares ``uses_own_edits``. ``hidden``: edits that must not be used.
    """

    id: str
    case: str
    query: str
    texts: tuple[str, ...]
    form: Form
    prompt: Prompt
    own: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()


@frozen(kw_only=True)
class Likelihood:
    """Score each of ``continuations`` after ``prompt``; the reply is ``Scored``.

    A continuation begins with one space. After an empty prompt, a text is scored as a whole (rolling likelihood).
    ``prompts``: one for each continuation, in place of ``prompt``; ``texts`` then has one wording for each. An editor
    gets one request for each of them, and continuations in random order. The other fields are those of a ``Question``.

    A method without log-probabilities raises ``NoLikelihood``, or replies with a ``Failure`` of that name. If it does
    so only for some requests, these count as wrong.
    """

    id: str
    case: str
    query: str = ""
    texts: tuple[str, ...] = ()
    form: Form = "question"
    prompt: str = ""
    continuations: tuple[str, ...]
    prompts: tuple[str, ...] = field(default=(), validator=one_for_each, metadata=OMITTED)
    own: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()

    def parts(self) -> tuple[Likelihood, ...]:
        """Return one request for each continuation where each has its own prompt, else the request itself."""
        if not self.prompts:
            return (self,)
        return tuple(
            evolve(
                self,
                id=f"{self.id}/{place}",
                texts=self.texts[place : place + 1] or (prompt,),
                prompt=prompt,
                continuations=(text,),
                prompts=(),
            )
            for place, (prompt, text) in enumerate(zip(self.prompts, self.continuations, strict=True))
        )


EditorRequest = Question | Likelihood
