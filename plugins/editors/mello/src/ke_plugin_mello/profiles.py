"""Where the published loops and a sound one differ (M1: there are two reference MeLLos)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from ke_core.plugin import Generated
from ke_memory.plugin import Turn
from ke_plugin_mello.turns import FACT, QUESTION, first_step, last_lines, last_lines_of_any_turn


@frozen(kw_only=True)
class MelloProfile:
    """One way to run the loop.

    ``calls``: call i asks sub-question i and one more gives the final answer, so that 4 calls cannot finish 4
    sub-questions. ``stop``: a model without instruction tuning goes on to invent the next example. ``read``:
    what counts of a turn. ``question``: the label of the question that is asked. ``lookup`` and ``fact``: how a
    sub-question is looked up and how a fact is shown. ``nothing`` stands in place of a fact where the memory is
    empty, or all in it is hidden.
    """

    calls: int
    max_tokens: int = 256
    temperature: float = 0.0
    question: str = QUESTION
    stop: tuple[str, ...] = (FACT,)
    read: Callable[[Generated], Turn]
    lookup: str = "{}"
    fact: str = "{}."
    nothing: str = "there is none"


PROFILES: Mapping[str, MelloProfile] = {
    # The notebook released with the paper; its label is misspelled.
    "paper": MelloProfile(calls=4, question="Qustion:", read=last_lines),
    # The port of MQuAKE-Remastered samples, and carries on with turns that the limit cut.
    "remastered": MelloProfile(
        calls=4,
        max_tokens=50,
        temperature=1.0,
        read=last_lines_of_any_turn,
        lookup="Subquestion: {}",
        fact="{}\n",
        nothing="There is no fact",
    ),
    # Ours: a call for the final answer, a stop at the next example, a turn ends with its first step.
    "fixed": MelloProfile(calls=5, stop=(FACT, f"\n{QUESTION}"), read=first_step),
}
