"""The walk through a question that the benchmark has taken apart (``decomposition=oracle``).

Each sub-question stands for itself: it names what is right before it, whatever the walk found there. The model names
its entity and its relation, the graph has the edge or not, and where it has none the benchmark's answer from before the
edits stands. What is left to the method is what is GWalk's own: to link, and to find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from ke_core.plugin import Answer, Ask, NoLikelihood, Phase, Procedure, Question, Reply, Step, SubQuestion
from ke_plugin_gwalk.reading import Lost
from ke_plugin_gwalk.walk import WORDS_ONLY, Walk, step, unfinished


@frozen(kw_only=True)
class Given:
    """``hops``: the material ``sub-questions``, by "case/query" and phase."""

    walk: Walk
    hops: Mapping[str, Mapping[Phase, Sequence[SubQuestion]]]

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Answer one question, hop by hop. Raises LookupError where the benchmark did not take it apart."""
        if not isinstance(ask, Question):
            raise NoLikelihood(WORDS_ONLY)
        steps: list[Step] = []
        try:
            for given in self._hops(ask):
                taken = yield from self._hop(given, ask.hidden)
                steps.append(taken)
        except Lost as end:
            return unfinished(steps, end, "")
        last = yield from self.walk.graph.link(steps[-1].answer)
        return Answer(text=last, steps=(*steps, Step(kind="final", text=last)))

    def _hop(self, given: SubQuestion, hidden: frozenset[str]) -> Procedure[Step]:
        """The edge that the sub-question asks for, if the graph has it."""
        named = yield from self.walk.start((given.question,))
        phrase, *_further = yield from self.walk.relations(given.question, named)
        subject = yield from self.walk.graph.link(named)
        relation, score = yield from self.walk.graph.relation(phrase, self.walk.threshold)
        fact = None if relation is None else self.walk.graph.find(subject, relation, hidden)
        return step(given.question, fact, score, given.answer if fact is None else fact.object)

    def _hops(self, ask: Question) -> Sequence[SubQuestion]:
        """The hops of the edited world; of the old one for a control, which owns no edit. Raises Lost."""
        name = f"{ask.case}/{ask.query}"
        if name not in self.hops:
            raise LookupError("the dataset gives no sub-questions to this question")
        hops = self.hops[name]["after" if ask.own else "before"]
        if len(hops) > self.walk.max_hops:
            raise Lost("hop-cap", f"{len(hops)} sub-questions")
        return hops
