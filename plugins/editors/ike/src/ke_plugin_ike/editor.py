"""IKE as an editor: the model is unchanged, and each question follows a context for its edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve, field, frozen

from ke_core.plugin import (
    Answer,
    Decoding,
    Details,
    Edit,
    Edited,
    EditorRequest,
    Likelihood,
    Procedure,
    Prompt,
    Question,
    Reply,
    Session,
    Step,
    SubQuestion,
    across_lines,
    prompt_text,
    put,
)
from ke_memory.plugin import (
    HopProcedure,
    InContextModel,
    MemoryEditor,
    SubQuestionResult,
    SubQuestionWalk,
    dataset_sub_questions,
)
from ke_plugin_ike import IkeConfig
from ke_plugin_ike.context import FACT, FILE, PROFILES, IkeContext, read_layout
from ke_plugin_ike.corpus import DemonstrationCorpus
from ke_plugin_ike.records import read_records, stamp_of
from ke_plugin_ike.subject_filter import SubjectFilter


class IkeModel(InContextModel):
    """A model with demonstrations and facts before each question."""

    def __init__(
        self, config: IkeConfig, session: Session[Any], edits: Sequence[Edit], *, corpus: DemonstrationCorpus
    ) -> None:
        profile = PROFILES[config.profile]
        self.context = IkeContext(
            corpus=corpus,
            layout=read_layout(prompt_text("ke_plugin_ike", FILE, config.prompts, option="ike.prompts")),
            profile=profile,
            k=profile.k if config.k is None else config.k,
            seed=session.seed,
        )
        self.subject_filter = SubjectFilter(corpus)
        super().__init__(session, edits, choice=config.facts, k=config.top, encoder=config.encoder)
        oracle = config.decomposition == "oracle"
        self.dataset_walk = (
            SubQuestionWalk(hops=dataset_sub_questions(session, editor="ike"), hop_procedure=self.hop_procedure)
            if oracle
            else None
        )

    @property
    def until(self) -> str:
        """Beginning of the next demonstration, which ends an answer."""
        return "\n" + self.context.layout.fact.partition(FACT)[0].rstrip()

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Ask the whole question, or walk over the benchmark's sub-questions."""
        return self.ask_whole(request) if self.dataset_walk is None else self.dataset_walk.solve(request)

    def ask_whole(self, request: EditorRequest) -> Procedure[Reply]:
        """Ask with the context of the question's facts; without facts, send the benchmark's own prompt."""
        shown = yield from self.question_context(request)
        if shown.facts:
            query = (
                request.texts[0]
                if request.texts
                else request.prompt
                if isinstance(request, Likelihood)
                else request.prompt.text
            )
            text = yield from self.context.before(shown.facts, self.subject_filter.without(request.hidden), query)
            request = with_prompt(request, text, self.until)
        return shown.with_steps((yield from put(request)))

    def hop_procedure(self, request: Question) -> HopProcedure:
        """Return the procedure for the hops of ``request``: each is a separate question with its own context.

        The given answer is shown as the answer without a fact. If no fact is shown, the given answer is used.
        """

        def hop(given: SubQuestion, earlier: str) -> Procedure[SubQuestionResult]:
            del earlier  # hops are independent
            shown = yield from self.question_context(evolve(request, texts=(given.question,)))
            (found,) = shown.steps or (Step(kind="", text=given.question),)
            found = evolve(found, kind="subquestion")
            if not shown.facts:
                return SubQuestionResult(steps=(evolve(found, answer=given.answer),))
            text = yield from self.context.before(
                shown.facts, self.subject_filter.without(request.hidden), given.question, given.answer
            )
            reply = yield from put(with_prompt(request, text, self.until))
            assert isinstance(reply, Answer), "a question has a text answer"
            text = f"\n{given.question} {reply.raw.strip()}"
            return SubQuestionResult(steps=(evolve(found, answer=reply.text),), text=text, outcome=reply.outcome)

        return hop

    @property
    def details(self) -> Details:
        """The facts, the number of demonstrations, and the number of records to select them from."""
        return {
            **super().details,
            "demonstrations": self.context.k,
            "records_free": self.subject_filter.records_free,
            "demonstrations_sha256": self.context.corpus.sha256,
        }

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Remove and add edits, and exclude demonstrations about the active ones."""
        super().change(add=add, remove=remove)
        self.subject_filter.change(add=add, remove=remove)


def with_prompt(request: EditorRequest, text: str, until: str) -> EditorRequest:
    """Return ``request`` with ``text`` as its prompt.

    An answer is one line. If the benchmark asks for several lines, it ends at ``until``. Likelihood requests score
    whole continuations, not tokens.
    """
    if isinstance(request, Likelihood):
        return evolve(request, prompt=text)
    if request.prompt.several_lines:
        return evolve(request, prompt=across_lines(Prompt(text=text, decoding=request.prompt.decoding), until=until))
    decoding = Decoding(max_tokens=request.prompt.decoding.max_tokens, stop=("\n",))
    return evolve(request, prompt=Prompt(text=text, decoding=decoding))


@frozen
class Ike(MemoryEditor):
    """Editor whose edited model reads the edits in its prompt."""

    config: IkeConfig
    _known: dict[tuple[object, ...], DemonstrationCorpus] = field(factory=dict, init=False, repr=False, eq=False)

    def edited_model(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """Return the edited model. Raises BadConfig for a bad prompt file, BadData for bad demonstrations."""
        return IkeModel(self.config, session, edits, corpus=self._corpus(session))

    def _corpus(self, session: Session[Any]) -> DemonstrationCorpus:
        """Return the corpus of these demonstrations and this encoder, built once for all groups of edits."""
        source, encoder = self.config.demonstrations, session.encoder(self.config.encoder)
        key = (encoder.id, *stamp_of(source))
        if key not in self._known:
            records = read_records(source)
            self._known.clear()  # free the previous corpus
            self._known[key] = DemonstrationCorpus(records=records, encoder=encoder, artifacts=session.artifacts)
        return self._known[key]
