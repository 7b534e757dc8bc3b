"""A hop of a question that the benchmark has taken apart (``decomposition=oracle``).

::

    Question: ...                      given, after worked examples
    Subquestion: ...                   the benchmark
    Generated answer: ...              the edit in scope; if there is none, what was right before the edits
    ... is: ...                        the model: the entity that this leads to
    Subquestion: ...                   the benchmark, and so on

What is left to the method is what is PokeMQA's own: to say which edit is in scope, and to read on from it.
"""

from __future__ import annotations

from ke_core.plugin import Generate, Generated, Hit, Nearest, Procedure, Question, SubQuestion
from ke_memory.plugin import SubQuestionResult, Way, looked_up, sentence
from ke_plugin_pokemqa.loop import PokemqaLoop
from ke_plugin_pokemqa.turns import FACT, SUBQUESTION, reached


def way(loop: PokemqaLoop, ask: Question) -> Way:
    """How the hops of ``ask`` are taken."""
    start = loop.start(ask)

    def hop(given: SubQuestion, said: str) -> Procedure[SubQuestionResult]:
        """The edit in scope or the given answer, and the entity that the model reads in it."""
        hits: tuple[Hit, ...] = yield Nearest(memory=loop.memory, text=given.question, k=1, hidden=ask.hidden)
        found = looked_up(given.question, hits)
        known = sentence(hits[0].text if hits else given.statement)
        text = f"\n{SUBQUESTION} {given.question}\n{FACT} {known}\n"
        written: Generated = yield Generate(prompt=f"{start}{said}{text}", stop=("\n",), max_tokens=loop.max_tokens)
        text += written.text
        return SubQuestionResult.read(found, written, reached([written.text]), text)

    return hop
