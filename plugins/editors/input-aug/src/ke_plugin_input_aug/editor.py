"""Input augmentation, InputAug of Hua et al. 2024: the edited facts are in the prompt with the question.

::

    ...                          an instruction, and worked examples in this format
    Facts: ...                   the counterfactual facts as sentences; "none" without facts
    Question: ...
    Thoughts: ...                with ``mode=cot``: the model, one sentence per step
    Answer: ...                  the model
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from ke_core.plugin import (
    Decoding,
    Details,
    Edit,
    Edited,
    EditorRequest,
    Likelihood,
    NoLikelihood,
    Parse,
    Procedure,
    Prompt,
    Question,
    Reply,
    Session,
    across_lines,
    prompt_text,
    put,
)
from ke_memory.plugin import Choice, InContextModel, MemoryEditor, QuestionContext, before_prompt
from ke_plugin_input_aug import COUNTERFACTUALS, InputAugConfig

NO_FACTS = "none"
FACTS: Mapping[str, Choice] = {
    "oracle": "own", "counterfactuals": "own", "all": "all", "retrieved": "retrieved", "none": "none",
}  # fmt: skip


@frozen(kw_only=True)
class AnswerMode:
    """Format of an answer: its first words, decoding settings, and parsing."""

    begins: str
    decoding: Decoding
    parse: Parse


MODES = {
    "direct": AnswerMode(begins="Answer:", decoding=Decoding(max_tokens=24, stop=("\n",)), parse=Parse()),
    "cot": AnswerMode(
        begins="Thoughts:",
        decoding=Decoding(max_tokens=200, stop=("\n\n", "\nFacts:", "\nQuestion:")),
        parse=Parse(after="Answer:", until="\n"),
    ),
}


class InputAugModel(InContextModel):
    """A model with facts before each question."""

    def __init__(self, config: InputAugConfig, session: Session[Any], edits: Sequence[Edit]) -> None:
        super().__init__(session, edits, choice=FACTS[config.facts], k=config.k, encoder=config.encoder)
        self.mode = MODES[config.mode]
        self.max_tokens = config.max_tokens
        given = config.facts == "counterfactuals"
        self.sentences: Mapping[str, Sequence[str]] | None = session.material[COUNTERFACTUALS].value if given else None
        self.examples = prompt_text(
            "ke_plugin_input_aug", f"{config.mode}.txt", config.prompts, option="input-aug.prompts"
        )

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Ask with the facts before the question."""
        shown: QuestionContext = yield from self.question_context(request)
        facts = f"Facts: {shown.sentences or NO_FACTS}\n"
        extended = (
            self._likelihood(request, facts) if isinstance(request, Likelihood) else self._question(request, facts)
        )
        reply: Reply = yield from put(extended)
        return shown.with_steps(reply)

    def question_context(self, request: EditorRequest) -> Procedure[QuestionContext]:
        """Return ReCoE's sentences instead of the case's edits, if one of these is active."""
        shown: QuestionContext = yield from super().question_context(request)
        if self.sentences is None or not shown.facts:
            return shown
        return QuestionContext(facts=tuple(self.sentences[request.case]))

    def _question(self, request: Question, facts: str) -> EditorRequest:
        text = f"{self.examples}\n\n{facts}Question: {request.texts[0]}\n{self.mode.begins}"
        # By default, a benchmark that asks for lists gets them complete.
        tokens = self.max_tokens or max(self.mode.decoding.max_tokens, request.prompt.decoding.max_tokens)
        decoding = evolve(self.mode.decoding, max_tokens=tokens)
        prompt = Prompt(text=text, decoding=decoding, parse=self.mode.parse)
        return evolve(
            request, prompt=across_lines(prompt, until="\nFacts:") if request.prompt.several_lines else prompt
        )

    def _likelihood(self, request: Likelihood, facts: str) -> EditorRequest:
        """Return the benchmark's own prompt, preceded by the facts. Raises NoLikelihood after a chain of thought."""
        if self.mode.parse.after:
            raise NoLikelihood(
                "input-aug returns no log-probabilities after a chain of thought", hint="use -o input-aug.mode=direct"
            )
        return before_prompt(request, facts)

    @property
    def details(self) -> Details:
        """The facts, and the maximum tokens of an answer."""
        return {**super().details, "max_tokens": self.max_tokens or self.mode.decoding.max_tokens}


@frozen
class InputAug(MemoryEditor):
    """Editor whose edited model reads the edits before each question."""

    config: InputAugConfig

    @property
    def encoder(self) -> str | None:
        """The encoder, with retrieval."""
        return self.config.encoder if self.config.facts == "retrieved" else None

    def edited_model(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """Return the edited model. Raises BadConfig if ``prompts`` has no usable file."""
        return InputAugModel(self.config, session, edits)
