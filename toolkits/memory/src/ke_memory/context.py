"""Facts in the prompt: shared code of in-context editing and input augmentation.

``QuestionContext`` holds the facts shown to a question. Other functions format them and put them before a prompt. If a
prompt is longer than the model's context, the model raises ``ContextOverflow``; no fact is left out to make it fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from attrs import evolve, frozen

from ke_core.plugin import Answer, Ask, Details, Edit, Hit, Likelihood, Nearest, Procedure, Reply, Session, Step
from ke_memory.memory import FactMemory
from ke_memory.transcript import lookup_step

Choice = Literal["own", "all", "retrieved", "none"]
ENDS = (".", "!", "?")


@frozen(kw_only=True)
class QuestionContext:
    """The facts that one question gets to see. ``steps`` say how they were found, where they were looked up."""

    facts: tuple[str, ...]
    steps: tuple[Step, ...] = ()

    @property
    def sentences(self) -> str:
        """The facts as sentences, one after another."""
        return " ".join(map(sentence, self.facts))

    def on_record(self, reply: Reply) -> Reply:
        """``reply`` with these steps before its own."""
        return evolve(reply, steps=(*self.steps, *reply.steps)) if isinstance(reply, Answer) else reply


def sentence(fact: str) -> str:
    """A statement with its full stop."""
    return fact if fact.endswith(ENDS) else f"{fact}."


def wording(ask: Ask) -> str:
    """Return what facts are looked up for: the question, or the text that is scored if nothing is before it."""
    if isinstance(ask, Likelihood):
        return next(filter(None, (*ask.texts[:1], ask.prompt)), ask.continuations[0])
    return ask.texts[0] if ask.texts else ask.prompt.text


def before_prompt(ask: Ask, text: str) -> Ask:
    """``ask`` with ``text`` before the benchmark's own prompt."""
    if isinstance(ask, Likelihood):
        return evolve(ask, prompt=f"{text}{ask.prompt}")
    return evolve(ask, prompt=evolve(ask.prompt, text=f"{text}{ask.prompt.text}"))


class InContextModel(ABC):
    """An edited model: the session's model, shown facts with each question.

    ``choice``: ``own``, the edits of the question's own case that are in force; ``all``, every edit in force;
    ``retrieved``, the ``k`` nearest to the question; ``none``. What is hidden from a question is never shown to
    it. An encoder is loaded only where something is retrieved.
    """

    def __init__(self, session: Session[Any], edits: Iterable[Edit], *, choice: Choice, k: int, encoder: str) -> None:
        self.session = session
        self.choice: Choice = choice
        self.k = k
        self.facts: dict[str, str] = {}
        self.memory = FactMemory(session.encoder(encoder)) if choice == "retrieved" else None
        self.change(add=tuple(edits))

    @abstractmethod
    def solve(self, ask: Ask) -> Procedure[Reply]:
        """The method's way to answer one ask."""

    def shown(self, ask: Ask) -> Procedure[QuestionContext]:
        """The facts for this ask: in the order of the edits, or the nearest first."""
        if self.memory is not None:
            text = wording(ask)
            hits: tuple[Hit, ...] = yield Nearest(memory=self.memory, text=text, k=self.k, hidden=ask.hidden)
            found = lookup_step(text, hits, kind="retrieved")
            return QuestionContext(facts=tuple(self.facts[hit.id] for hit in hits), steps=(found,))
        wanted: Iterable[str] = {"own": ask.own, "all": self.facts}.get(self.choice, ())
        return QuestionContext(
            facts=tuple(self.facts[name] for name in wanted if name in self.facts and name not in ask.hidden)
        )

    def worded(self, edit: Edit) -> str:
        """How the model is told of ``edit``; what is looked up is its statement in any case."""
        return edit.statement

    @property
    def details(self) -> Details:
        """How many facts there are, and what finds them; a method adds what made its answers."""
        found = {} if self.memory is None else {"k": self.k, "encoder": self.memory.encoder.id}
        return {"facts": len(self.facts), "shown": self.choice, **found}

    def answer(self, asks: Sequence[Ask]) -> list[Reply]:
        """One reply an ask, in order; all advance together."""
        return self.session.engine.answer(self.solve, asks)

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Take facts out and put others in, in their order (M3: never that of a set)."""
        words = [(edit.id, self.worded(edit)) for edit in add]
        if self.memory is not None:  # before the facts, since its encoder may fail
            self.memory.change(add=((edit.id, edit.statement) for edit in add), remove=remove)
        for name in remove:
            self.facts.pop(name, None)
        for name, said in words:
            self.facts.setdefault(name, said)
