"""What a procedure may ask of the engine, and what it receives.

A method that talks to a model is a generator: it yields a request and is sent the result. The engine
advances hundreds of such procedures together and runs their requests in batches::

    def solve(self, ask: Question) -> Procedure[Answer]:
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

A request that fails is raised inside the generator; one that is not caught there becomes a ``Failure``.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from attrs import Attribute, evolve, field, frozen, validators

from ke_core.spec.facts import OMITTED
from ke_core.spec.prompts import Prompt
from ke_core.spec.queries import Form

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
Procedure = Generator["Request", Any, T]


class Encoder(Protocol):
    """Texts to unit-free vectors; ``id`` names the weights and how they are pooled."""

    @property
    def id(self) -> str:
        """Names the weights and the pooling: part of the key of everything embedded with it."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors, float32 [n, d]."""
        ...


class Memory(Protocol):
    """Texts by id, found by meaning (``ke_memory.FactMemory`` is one)."""

    def search(self, texts: Sequence[str], *, k: int, hidden: Sequence[frozenset[str]]) -> list[tuple[Hit, ...]]:
        """The ``k`` nearest rows for each text, best first, without that text's hidden ids."""
        ...


@frozen(kw_only=True)
class Hit:
    """One retrieved row: its id, its text and its score (higher is nearer)."""

    id: str
    text: str
    score: float


def one_for_each(instance: Any, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    """Attrs validator: there is one text for each continuation, or none, and no shared prompt besides."""
    if value and len(value) != len(instance.continuations):
        raise ValueError(f"{attribute.name}: {len(value)} given for {len(instance.continuations)} continuations")
    if value and instance.prompt:
        raise ValueError(f"{attribute.name} and prompt cannot both be given: {instance.prompt!r}")


@frozen(kw_only=True)
class Generate:
    """Continue ``prompt`` until a stop string, the end-of-text token or ``max_tokens``.

    The result never holds the stop string, nor anything of the prompt. ``temperature`` 0 is greedy; a
    sampled request is seeded by the engine from the run's seed, the procedure's id and the call number, so
    that it does not depend on what else is in the batch (``seed`` is set by the engine).
    """

    prompt: str
    max_tokens: int = field(default=64, validator=validators.ge(1))
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    top_k: int = 0
    seed: int | None = None


@frozen(kw_only=True)
class Generated:
    """What was written, why it ended, and how many tokens that took."""

    text: str
    finish: Literal["stop", "eos", "length"]
    prompt_tokens: int = 0
    tokens: int = 0


@frozen(kw_only=True)
class Score:
    """Score each of ``continuations`` after ``prompt``, or after its own one of ``prompts``.

    A continuation begins with its own space. After an empty prompt a text is scored as a whole (rolling likelihood):
    every token is predicted once, the first one from the beginning-of-text token.
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
    """A question put to an edited model.

    An editor gets ``id``, ``case`` and ``query`` as hashes, each used once. ``prompt`` is the benchmark's way to ask it
    (few-shot text and question); a method with prompts of its own reads ``texts``. ``own`` are the case's own edits, in
    order; empty unless the editor declares ``uses_own_edits``. ``hidden`` must not be used.
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
    ``prompts``: one for each continuation, in place of ``prompt``; ``texts`` then holds one wording for each. An editor
    never gets these: it gets one request for each of them. It gets continuations in random order. The other fields are
    those of a ``Question``.

    A method without log-probabilities raises ``NoLikelihood``, or replies with a ``Failure`` of that name ("not
    measured"). If it replies so to some requests only, these count as wrong.
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


Ask = Question | Likelihood
