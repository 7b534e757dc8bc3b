"""A hop of a question that the benchmark has taken apart (``decomposition=oracle``).

The model names the sub-question's entity and its relation, the graph has the edge or not, and where it has none the
given answer stands. What is left to the method is what is GWalk's own: to link, and to find.
"""

from __future__ import annotations

from ke_core.plugin import Procedure, Question, Step, SubQuestion
from ke_memory.plugin import SubQuestionResult, Way
from ke_plugin_gwalk.graph import HiddenEdges
from ke_plugin_gwalk.reading import WalkFailed
from ke_plugin_gwalk.walk import Walk, step


def way(walk: Walk, ask: Question) -> Way:
    """How the hops of ``ask`` are taken."""
    unseen = walk.unseen(ask.hidden)

    def hop(given: SubQuestion, said: str) -> Procedure[SubQuestionResult]:
        """The edge that the sub-question asks for, if the graph has it."""
        del said
        try:
            return SubQuestionResult(steps=((yield from _edge(walk, given, unseen)),))
        except WalkFailed as end:
            return SubQuestionResult(steps=(Step(kind=end.outcome, text=end.said),), text=end.said, outcome=end.outcome)

    return hop


def _edge(walk: Walk, given: SubQuestion, unseen: HiddenEdges) -> Procedure[Step]:
    named = yield from walk.start((given.question,))
    phrase = yield from walk.relation(given.question, named)
    found = yield from walk.retrieve(named, phrase, unseen)
    return step(given.question, found, given.answer if found.fact is None else found.fact.object)
