"""DeepEdit as an editor: the model stays as it is, the edits go into a memory that its thoughts are checked against."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from attrs import evolve, frozen

from ke_core.plugin import Ask, Details, Edit, Edited, Hit, Nearest, Procedure, Question, Reply, Session, SubQuestion
from ke_memory.plugin import (
    HopProcedure,
    MemoryEditedModel,
    MemoryEditor,
    SubQuestionResult,
    SubQuestionWalk,
    dataset_sub_questions,
    lookup_step,
)
from ke_plugin_deepedit import DeepEditConfig
from ke_plugin_deepedit.conversation import Conversation, OutOfCalls
from ke_plugin_deepedit.prompts import read_prompts
from ke_plugin_deepedit.search import CANDIDATES, PROFILES, DeepEditSearch, SearchState, closed, relevant


class DeepEditModel(MemoryEditedModel):
    """A model whose thoughts give way to the edits of a memory."""

    def __init__(self, config: DeepEditConfig, session: Session[Any], edits: Sequence[Edit]) -> None:
        prompts = read_prompts(config.prompts)
        super().__init__(session, edits, encoder=config.encoder)
        profile = PROFILES[config.profile]
        self.search = DeepEditSearch(
            memory=self.memory,
            prompts=prompts,
            profile=profile,
            own_only=config.own_only,
            calls=config.max_calls,
            max_tokens=config.max_tokens,
        )
        self.given = _given(self.search, session) if config.decomposition == "oracle" else None

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """The published search; the walk over the benchmark's own sub-questions where it is asked for."""
        return (self.given or self.search).solve(ask)

    @property
    def details(self) -> Details:
        """What the memory holds, whose facts a question sees, and which prompts are used (they may come from files)."""
        texts = "\0".join(template.text for template in self.search.prompts.values())
        return {
            **super().details,
            "shown": "own" if self.search.own_only else "all",
            "prompts_sha256": hashlib.sha256(texts.encode()).hexdigest(),
        }


def _given(search: DeepEditSearch, session: Session[Any]) -> SubQuestionWalk:
    return SubQuestionWalk(hops=dataset_sub_questions(session, editor="deepedit"), way=partial(way, search))


@frozen(kw_only=True)
class DeepEdit(MemoryEditor):
    """DeepEdit(config).edit(session, edits) is a model that thinks with those edits."""

    config: DeepEditConfig

    @property
    def encoder(self) -> str:
        """Of the memory."""
        return self.config.encoder

    def remembering(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """The model beside a memory. Raises BadConfig where ``prompts`` has no usable files."""
        return DeepEditModel(self.config, session, edits)


def way(search: DeepEditSearch, ask: Question) -> HopProcedure:
    """How the hops of ``ask`` are taken, in at most ``search.calls`` model calls together."""
    hidden, talk = search.hidden(ask), search.talk()

    def hop(given: SubQuestion, said: str) -> Procedure[SubQuestionResult]:
        """The fact that takes the given thought's place, or the thought."""
        del said  # each hop starts from its own sub-question
        try:
            return (yield from _hop(search, given, talk, hidden))
        except OutOfCalls:
            return SubQuestionResult(steps=talk.note("call-cap", f"{search.calls} model calls"), outcome="hop-cap")

    return hop


def _hop(
    search: DeepEditSearch, given: SubQuestion, talk: Conversation, hidden: frozenset[str]
) -> Procedure[SubQuestionResult]:
    asked, answer, link = given.question, given.answer, given.statement
    hits: tuple[Hit, ...] = yield Nearest(memory=search.memory, text=asked, k=CANDIDATES, hidden=hidden)
    state = SearchState(new_entity=(yield from talk.entity(asked)) if hits else "", last_thought=asked)
    for fact in (hit.text for hit in hits):
        if (yield from relevant(fact, state, talk)) or (yield from talk.conflict(fact, given.statement)):
            answer, link = (yield from talk.new(asked, fact)), fact
            break
    notes, talk.notes = talk.notes, []
    steps = (evolve(lookup_step(asked, hits), answer=answer), *notes)
    return SubQuestionResult(steps=steps, text=f" {closed(link)}", outcome="answered" if answer else "unparsed")
