"""Facts in the prompt: shared code of in-context editing and input augmentation.

``QuestionContext`` holds the facts shown with a question. If a prompt is longer than the model's context, the model
raises ``ContextOverflow``; facts are never omitted to make it fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from attrs import evolve, frozen

from ke_core.plugin import (
    Answer,
    BadConfig,
    Details,
    Edit,
    EditorRequest,
    Hit,
    Likelihood,
    Nearest,
    Procedure,
    Reply,
    Session,
    Step,
    prompt_text,
)
from ke_memory.memory import FactMemory
from ke_memory.transcript import lookup_step

Choice = Literal["own", "all", "retrieved", "none"]
ENDS = (".", "!", "?")


@frozen(kw_only=True)
class QuestionContext:
    """The facts shown with one question. ``steps`` record how they were retrieved."""

    facts: tuple[str, ...]
    steps: tuple[Step, ...] = ()

    @property
    def sentences(self) -> str:
        """The facts as sentences, joined with spaces."""
        return " ".join(map(sentence, self.facts))

    def with_steps(self, reply: Reply) -> Reply:
        """Return ``reply`` with these steps before its own."""
        return evolve(reply, steps=(*self.steps, *reply.steps)) if isinstance(reply, Answer) else reply


def sentence(fact: str) -> str:
    """Return a statement with a period at its end."""
    return fact if fact.endswith(ENDS) else f"{fact}."


def wording(request: EditorRequest) -> str:
    """Return the text to search facts with: the question, or the scored text if there is no prompt."""
    if isinstance(request, Likelihood):
        return next(filter(None, (*request.texts[:1], request.prompt)), request.continuations[0])
    return request.texts[0] if request.texts else request.prompt.text


def before_prompt(request: EditorRequest, text: str) -> EditorRequest:
    """Return ``request`` with ``text`` before the benchmark's own prompt."""
    if isinstance(request, Likelihood):
        return evolve(request, prompt=f"{text}{request.prompt}")
    return evolve(request, prompt=evolve(request.prompt, text=f"{text}{request.prompt.text}"))


def one_line(package: str, file: str, chosen: str, *, option: str) -> str:
    """Return the one-line text ``file`` before the facts (see ``prompt_text``). Raises BadConfig."""
    text = prompt_text(package, file, chosen, option=option)
    if len(text.splitlines()) > 1:
        raise BadConfig(f"{option}: {file} has more than one line", hint="write the text before the facts in one line")
    return text


class InContextModel(ABC):
    """An edited model: the session's model, with facts shown before each question.

    ``choice``: ``own``, the active edits of the question's own case; ``all``, every active edit; ``retrieved``, the
    ``k`` nearest to the question; ``none``. Facts hidden from a question are never shown to it. The encoder is only
    loaded for ``retrieved``.
    """

    def __init__(self, session: Session[Any], edits: Iterable[Edit], *, choice: Choice, k: int, encoder: str) -> None:
        self.session = session
        self.choice: Choice = choice
        self.k = k
        self.facts: dict[str, str] = {}
        self.memory = FactMemory(session.encoder(encoder)) if choice == "retrieved" else None
        self.change(add=tuple(edits))

    @abstractmethod
    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Answer one request with the method."""

    def question_context(self, request: EditorRequest) -> Procedure[QuestionContext]:
        """Return the facts for this request: in the order of the edits, or retrieved ones nearest first."""
        if self.memory is not None:
            text = wording(request)
            hits: tuple[Hit, ...] = yield Nearest(memory=self.memory, text=text, k=self.k, hidden=request.hidden)
            found = lookup_step(text, hits, kind="retrieved")
            return QuestionContext(facts=tuple(self.facts[hit.id] for hit in hits), steps=(found,))
        wanted: Iterable[str] = {"own": request.own, "all": self.facts}.get(self.choice, ())
        return QuestionContext(
            facts=tuple(self.facts[name] for name in wanted if name in self.facts and name not in request.hidden)
        )

    def fact_text(self, edit: Edit) -> str:
        """Return ``edit`` as the model reads it. Retrieval uses its statement in any case."""
        return edit.statement

    @property
    def details(self) -> Details:
        """Number of facts, and how they are retrieved. A method adds what its answers depend on."""
        found = {} if self.memory is None else {"k": self.k, "encoder": self.memory.encoder.id}
        return {"facts": len(self.facts), "shown": self.choice, **found}

    def answer(self, requests: Sequence[EditorRequest]) -> list[Reply]:
        """Return one reply per request, in order; all advance concurrently."""
        return self.session.engine.answer(self.solve, requests)

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Remove facts and append others, in the given order."""
        texts = [(edit.id, self.fact_text(edit)) for edit in add]
        if self.memory is not None:  # first, because the encoder may fail
            self.memory.change(add=((edit.id, edit.statement) for edit in add), remove=remove)
        for name in remove:
            self.facts.pop(name, None)
        for name, text in texts:
            self.facts.setdefault(name, text)
