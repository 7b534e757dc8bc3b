"""The loop of MeLLo and its successors: the model asks sub-questions, and a memory of edits answers them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from attrs import evolve, frozen

from ke_core.plugin import (
    Answer,
    EditorRequest,
    Generate,
    Generated,
    Hit,
    Nearest,
    NoLikelihood,
    Procedure,
    Question,
    Reply,
    Session,
    SubQuestion,
)
from ke_memory.memory import FactMemory
from ke_memory.sub_questions import HopProcedure, SubQuestionResult, SubQuestionWalk, dataset_sub_questions
from ke_memory.transcript import Transcript, Turn, lookup_step


@frozen(kw_only=True)
class SubQuestionLoop(ABC):
    """The loop over one memory with at most ``calls`` model calls.

    A subclass defines the lines of the transcript.
    """

    name: ClassVar[str]
    """The editor's name, for error messages."""
    memory: FactMemory
    calls: int
    max_tokens: int

    @abstractmethod
    def first_prompt(self, request: Question) -> str:
        """Return the worked examples and the question."""

    @abstractmethod
    def ask_model(self, text: str) -> Generate:
        """Return the request for the next turn, which continues ``text``."""

    @abstractmethod
    def read(self, written: Generated) -> Turn:
        """Parse one turn of the model."""

    @abstractmethod
    def fact_line(self, hits: Sequence[Hit]) -> str:
        """Return the line with the answer of the memory."""

    @abstractmethod
    def hop_lines(self, given: SubQuestion, hits: Sequence[Hit]) -> str:
        """Return the lines of a sub-question of the dataset, up to the model's part."""

    @abstractmethod
    def hop_answer(self, text: str) -> str:
        """Parse the answer to a sub-question of the dataset from the model's line; empty if there is none."""

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Answer one question. Raises NoLikelihood; other failures are outcomes of the answer."""
        state = Transcript(self.start(request))
        for _call in range(self.calls):
            written: Generated = yield self.ask_model(state.text)
            asked = state.add_turn(self.read(written), written)
            if isinstance(asked, Answer):
                return asked
            hits: tuple[Hit, ...] = yield self.look_up(asked, request)
            state.add_fact(asked, hits, self.fact_line(hits))
        return state.out_of_calls()

    def start(self, request: EditorRequest) -> str:
        """Return the prompt of the first call. Raises NoLikelihood."""
        if not isinstance(request, Question):
            raise NoLikelihood(f"{self.name} returns text answers, no log-probabilities")
        return self.first_prompt(request)

    def look_up(self, subquestion: str, request: EditorRequest) -> Nearest:
        """Return the request for the nearest fact."""
        return Nearest(memory=self.memory, text=subquestion, k=1, hidden=request.hidden)

    def dataset_walk(self, session: Session[Any]) -> SubQuestionWalk:
        """Return the walk over the dataset's sub-questions. Raises BadConfig if the dataset has none."""
        return SubQuestionWalk(
            hops=dataset_sub_questions(session, editor=self.name), hop_procedure=self._hop_procedure, cap=self.calls
        )

    def _hop_procedure(self, request: Question) -> HopProcedure:
        start = self.start(request)

        def hop(given: SubQuestion, earlier: str) -> Procedure[SubQuestionResult]:
            hits: tuple[Hit, ...] = yield self.look_up(given.question, request)
            text = self.hop_lines(given, hits)
            turn = self.ask_model(f"{start}{earlier}{text}")
            written: Generated = yield evolve(turn, stop=("\n",))
            found = lookup_step(given.question, hits)
            return SubQuestionResult.read(found, written, self.hop_answer(written.text), text + written.text)

        return hop
