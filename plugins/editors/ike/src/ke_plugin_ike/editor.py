"""IKE as an editor: the model stays as it is, and each question is asked behind a context made for its edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve, field, frozen

from ke_core.plugin import (
    Answer,
    Ask,
    Decoding,
    Details,
    Edit,
    Edited,
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
from ke_plugin_ike.context import PROFILES, IkeContext
from ke_plugin_ike.corpus import DemonstrationCorpus
from ke_plugin_ike.layout import FACT, FILE, read_layout
from ke_plugin_ike.records import read_records, stamp_of
from ke_plugin_ike.subject_filter import SubjectFilter


class IkeModel(InContextModel):
    """A model that is shown demonstrations and the facts of a question before it."""

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
        self.bars = SubjectFilter(corpus)
        super().__init__(session, edits, choice=config.facts, k=config.top, encoder=config.encoder)
        oracle = config.decomposition == "oracle"
        self.given = (
            SubQuestionWalk(hops=dataset_sub_questions(session, editor="ike"), way=self.way) if oracle else None
        )

    @property
    def until(self) -> str:
        """What the next demonstration begins with."""
        return "\n" + self.context.layout.fact.partition(FACT)[0].rstrip()

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Ask in one piece; over the benchmark's own sub-questions where it is asked for."""
        return self.whole(ask) if self.given is None else self.given.solve(ask)

    def whole(self, ask: Ask) -> Procedure[Reply]:
        """Ask with the context of its facts; a question that no edit is shown for is asked as the benchmark asks it."""
        shown = yield from self.shown(ask)
        if shown.facts:
            query = ask.texts[0] if ask.texts else ask.prompt if isinstance(ask, Likelihood) else ask.prompt.text
            text = yield from self.context.before(shown.facts, self.bars.without(ask.hidden), query)
            ask = asked(ask, text, self.until)
        return shown.on_record((yield from put(ask)))

    def way(self, ask: Question) -> HopProcedure:
        """How the hops of ``ask`` are taken: each is a question of its own, behind the context of the facts near to it.

        The given answer is shown as what was right under no fact; where no fact is shown, it stands.
        """

        def hop(given: SubQuestion, said: str) -> Procedure[SubQuestionResult]:
            del said  # nothing is carried from hop to hop
            shown = yield from self.shown(evolve(ask, texts=(given.question,)))
            (found,) = shown.steps or (Step(kind="", text=given.question),)
            found = evolve(found, kind="subquestion")
            if not shown.facts:
                return SubQuestionResult(steps=(evolve(found, answer=given.answer),))
            text = yield from self.context.before(
                shown.facts, self.bars.without(ask.hidden), given.question, given.answer
            )
            reply = yield from put(asked(ask, text, self.until))
            assert isinstance(reply, Answer), "a question is answered in words"
            text = f"\n{given.question} {reply.raw.strip()}"
            return SubQuestionResult(steps=(evolve(found, answer=reply.text),), text=text, outcome=reply.outcome)

        return hop

    @property
    def details(self) -> Details:
        """What is shown: the facts, how many demonstrations, and of how many records they are chosen."""
        return {
            **super().details,
            "demonstrations": self.context.k,
            "records_free": self.bars.records_free,
            "demonstrations_sha256": self.context.corpus.sha256,
        }

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Take edits out and put others in; no demonstration tells of one that is in force."""
        super().change(add=add, remove=remove)
        self.bars.change(add=add, remove=remove)


def asked(ask: Ask, text: str, until: str) -> Ask:
    """Return ``ask`` with ``text`` for its prompt. An answer is one line; where the benchmark asks for several, it ends
    at ``until``. Whole continuations are scored, not tokens (V2).
    """
    if isinstance(ask, Likelihood):
        return evolve(ask, prompt=text)
    if ask.prompt.several_lines:
        return evolve(ask, prompt=across_lines(evolve(ask.prompt, text=text), until=until))
    decoding = Decoding(max_tokens=ask.prompt.decoding.max_tokens, stop=("\n",))
    return evolve(ask, prompt=Prompt(text=text, decoding=decoding))


@frozen(kw_only=True)
class Ike(MemoryEditor):
    """Ike(config).edit(session, edits) is a model that is told those edits in its prompt."""

    config: IkeConfig
    _known: dict[tuple[object, ...], DemonstrationCorpus] = field(factory=dict, init=False, repr=False, eq=False)

    @property
    def encoder(self) -> str:
        """Of demonstrations, and of facts where they are retrieved."""
        return self.config.encoder

    def remembering(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """The model behind its context. Raises BadConfig for a bad prompt file, BadData for bad demonstrations."""
        return IkeModel(self.config, session, edits, corpus=self._corpus(session))

    def _corpus(self, session: Session[Any]) -> DemonstrationCorpus:
        """Of these demonstrations with this encoder; once, not with each group of edits."""
        source, encoder = self.config.demonstrations, session.encoder(self.config.encoder)
        key = (encoder.id, *stamp_of(source))
        if key not in self._known:
            records = read_records(source)
            self._known.clear()  # what was read before is not kept beside it
            self._known[key] = DemonstrationCorpus(records=records, encoder=encoder, artifacts=session.artifacts)
        return self._known[key]
