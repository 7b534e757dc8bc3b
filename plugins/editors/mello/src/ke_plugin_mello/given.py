"""The loop of a question that the benchmark has taken apart (``decomposition=oracle``).

::

    Question: ...                          given, after the worked examples
    Subquestion: ...                       the benchmark
    Generated answer: ...                  the benchmark: what was right before the edits
    Retrieved fact: ...                    the memory
    ... so the answer here is: ...         the model: does the fact contradict that answer?
    Subquestion: ...                       the benchmark, and so on

What is left to the method is what is MeLLo's own: to retrieve, and to weigh. Each hop stands for itself: its
sub-question names what is right before it, whatever the model took for the answer there. The last hop's answer is the
final one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from ke_core.plugin import Answer, Ask, Generated, Hit, Phase, Procedure, Reply, Step, SubQuestion
from ke_core.retrieval import answered, looked_up, sentence
from ke_plugin_mello.loop import Loop
from ke_plugin_mello.turns import SUBQUESTION, TENTATIVE, weighed


@frozen(kw_only=True)
class Given:
    """``hops``: the material ``sub-questions``, by "case/query" and phase."""

    loop: Loop
    hops: Mapping[str, Mapping[Phase, Sequence[SubQuestion]]]

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Answer one question, hop by hop; a self-check that names no answer ends it. Raises LookupError."""
        loop, start = self.loop, self.loop.start(ask)
        state, steps = start, list[Step]()
        for number, given in enumerate(self._hops(ask)):
            if number == loop.calls:
                return Answer(text="", raw=state[len(start) :], steps=tuple(steps), outcome="hop-cap")
            hits: tuple[Hit, ...] = yield loop.look_up(given.question, ask)
            steps.append(looked_up(given.question, hits))
            state += f"\n{SUBQUESTION} {given.question}\n{TENTATIVE} {sentence(given.statement)}\n"
            state += f"{loop.fact(hits).rstrip()}\n"
            written: Generated = yield loop.ask_model(state, stop=("\n",))
            state += written.text
            answer = weighed([written.text])
            if written.finish == "length" or not answer:
                steps.append(Step(kind="unparsed", text=written.text.strip()))
                cut, raw = written.finish == "length", state[len(start) :]
                return Answer(text="", raw=raw, steps=tuple(steps), outcome="length" if cut else "unparsed")
            steps = answered(steps, answer)
        last = steps[-1].answer
        return Answer(text=last, raw=state[len(start) :], steps=(*steps, Step(kind="final", text=last)))

    def _hops(self, ask: Ask) -> Sequence[SubQuestion]:
        """The hops of the edited world; of the old one for a control, which owns no edit."""
        name = f"{ask.case}/{ask.query}"
        if name not in self.hops:
            raise LookupError("the dataset gives no sub-questions to this question")
        return self.hops[name]["after" if ask.own else "before"]
