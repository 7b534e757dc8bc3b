"""The differences between the two published MeLLo loops and the corrected one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from ke_core.plugin import Generated
from ke_memory.plugin import Turn
from ke_plugin_mello.turns import FACT, QUESTION, first_step, last_lines, last_lines_of_any_turn


@frozen(kw_only=True)
class MelloProfile:
    """One version of the loop.

    ``calls``: call i generates sub-question i, and one more the final answer, so 4 calls cannot finish 4 sub-questions.
    ``stop``: without a stop, a model without instruction tuning invents the next example. ``read``: parses a turn.
    ``question``: the label of the question. ``lookup`` and ``fact``: templates of the search query and of a fact.
    ``nothing`` replaces a fact if the memory is empty or all of it is hidden.
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
    # The port of MQuAKE-Remastered samples, and uses turns that the token limit cut.
    "remastered": MelloProfile(
        calls=4,
        max_tokens=50,
        temperature=1.0,
        read=last_lines_of_any_turn,
        lookup="Subquestion: {}",
        fact="{}\n",
        nothing="There is no fact",
    ),
    # Corrected: a call for the final answer, a stop at the next example, a turn ends with its first step.
    "default": MelloProfile(calls=5, stop=(FACT, f"\n{QUESTION}"), read=first_step),
}
