"""A hop of a question that the benchmark has taken apart (``decomposition=oracle``).

::

    Question: ...                          given, after the worked examples
    Subquestion: ...                       the benchmark
    Generated answer: ...                  the benchmark: what was right before the edits
    Retrieved fact: ...                    the memory
    ... so the answer here is: ...         the model: does the fact contradict that answer?
    Subquestion: ...                       the benchmark, and so on

What is left to the method is what is MeLLo's own: to retrieve, and to weigh.
"""

from __future__ import annotations

from ke_core.plugin import Generated, Hit, Procedure, Question, SubQuestion
from ke_memory.plugin import SubQuestionResult, Way, looked_up, sentence
from ke_plugin_mello.loop import MelloLoop
from ke_plugin_mello.turns import SUBQUESTION, TENTATIVE, weighed


def way(loop: MelloLoop, ask: Question) -> Way:
    """How the hops of ``ask`` are taken."""
    start = loop.start(ask)

    def hop(given: SubQuestion, said: str) -> Procedure[SubQuestionResult]:
        """Look the sub-question up, and have the model weigh what was found."""
        hits: tuple[Hit, ...] = yield loop.look_up(given.question, ask)
        found = looked_up(given.question, hits)
        text = f"\n{SUBQUESTION} {given.question}\n{TENTATIVE} {sentence(given.statement)}\n"
        text += f"{loop.fact(hits).rstrip()}\n"
        written: Generated = yield loop.ask_model(f"{start}{said}{text}", stop=("\n",))
        text += written.text
        return SubQuestionResult.read(found, written, weighed([written.text]), text)

    return hop
