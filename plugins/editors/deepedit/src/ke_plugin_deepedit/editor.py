"""DeepEdit as an editor: the model is unchanged, and its thoughts are checked against a memory of edits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from attrs import evolve, frozen

from ke_core.plugin import (
    Details,
    Edit,
    Edited,
    EditorRequest,
    Hit,
    Nearest,
    Procedure,
    Question,
    Reply,
    Session,
    SubQuestion,
)
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
    """A model whose thoughts are replaced with edits from a memory."""

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
        self.dataset_walk = _dataset_walk(self.search, session) if config.decomposition == "oracle" else None

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Run the published search, or the walk over the benchmark's sub-questions."""
        return (self.dataset_walk or self.search).solve(request)

    @property
    def details(self) -> Details:
        """Size of the memory, which facts a question sees, and the digest of the prompts."""
        texts = "\0".join(template.text for template in self.search.prompts.values())
        return {
            **super().details,
            "shown": "own" if self.search.own_only else "all",
            "prompts_sha256": hashlib.sha256(texts.encode()).hexdigest(),
        }


def _dataset_walk(search: DeepEditSearch, session: Session[Any]) -> SubQuestionWalk:
    return SubQuestionWalk(
        hops=dataset_sub_questions(session, editor="deepedit"), hop_procedure=partial(hop_procedure, search)
    )


@frozen
class DeepEdit(MemoryEditor):
    """Editor whose edited model checks its thoughts against the edits."""

    config: DeepEditConfig

    def edited_model(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """Return the edited model. Raises BadConfig if ``prompts`` has no usable files."""
        return DeepEditModel(self.config, session, edits)


def hop_procedure(search: DeepEditSearch, request: Question) -> HopProcedure:
    """Return the procedure for the hops of ``request``, with ``search.calls`` model calls for all of them."""
    hidden, conversation = search.hidden(request), search.new_conversation()

    def hop(given: SubQuestion, earlier: str) -> Procedure[SubQuestionResult]:
        """Use the fact that replaces the given thought, or the thought."""
        del earlier  # each hop starts from its own sub-question
        try:
            return (yield from _hop(search, given, conversation, hidden))
        except OutOfCalls:
            return SubQuestionResult(
                steps=conversation.note("call-cap", f"{search.calls} model calls"), outcome="hop-cap"
            )

    return hop


def _hop(
    search: DeepEditSearch, given: SubQuestion, conversation: Conversation, hidden: frozenset[str]
) -> Procedure[SubQuestionResult]:
    asked, answer, link = given.question, given.answer, given.statement
    hits: tuple[Hit, ...] = yield Nearest(memory=search.memory, text=asked, k=CANDIDATES, hidden=hidden)
    state = SearchState(new_entity=(yield from conversation.entity(asked)) if hits else "", last_thought=asked)
    for fact in (hit.text for hit in hits):
        if (yield from relevant(fact, state, conversation)) or (
            yield from conversation.conflict(fact, given.statement)
        ):
            answer, link = (yield from conversation.new(asked, fact)), fact
            break
    notes, conversation.notes = conversation.notes, []
    steps = (evolve(lookup_step(asked, hits), answer=answer), *notes)
    return SubQuestionResult(steps=steps, text=f" {closed(link)}", outcome="answered" if answer else "unparsed")
