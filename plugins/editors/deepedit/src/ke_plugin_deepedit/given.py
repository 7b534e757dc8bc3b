"""A hop of a question that the benchmark has taken apart (``decomposition=oracle``).

The given answer, as a sentence, is the thought, and the sub-question is what is looked up. A fact takes the thought's
place if it names the entity that the sub-question starts from, or contradicts the thought; of two, the nearer. The
answer is the entity that the fact brings in, or the given one where the thought stays. What is left to the method is
what is DeepEdit's own: to retrieve, and to judge facts. There is one thought a hop, so that nothing is searched.
"""

from __future__ import annotations

from attrs import evolve

from ke_core.plugin import Hit, Nearest, Procedure, Question, SubQuestion
from ke_memory.plugin import SubQuestionResult, Way, looked_up
from ke_plugin_deepedit.conversation import Conversation, OutOfCalls
from ke_plugin_deepedit.search import CANDIDATES, DeepEditSearch, SearchState, closed, relevant


def way(search: DeepEditSearch, ask: Question) -> Way:
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
    steps = (evolve(looked_up(asked, hits), answer=answer), *notes)
    return SubQuestionResult(steps=steps, text=f" {closed(link)}", outcome="answered" if answer else "unparsed")
