"""How a demonstration reads: a line for the fact, and a line for the prompt with its answer."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from ke_core.plugin import BadConfig

FACT, ANSWERED = "{fact}", "{prompt} {answer}"
FILE = "demonstration.txt"


@frozen(kw_only=True)
class DemonstrationFormat:
    """``fact`` is a line with ``{fact}``; ``text`` is what stands before the prompt in the second line."""

    fact: str
    text: str

    def block(self, facts: Iterable[str], prompt: str, answer: str = "") -> str:
        """One demonstration, or with no answer the place where the model goes on; no space at its end."""
        told = [self.fact.replace(FACT, fact) for fact in facts]
        return "\n".join([*told, f"{self.text}{prompt} {answer}".rstrip()])


def read_layout(written: str) -> DemonstrationFormat:
    """The layout in a ``demonstration.txt``. Raises BadConfig where it is not two such lines."""
    lines = written.splitlines()
    if len(lines) != 2 or lines[0].count(FACT) != 1 or not lines[1].endswith(ANSWERED):
        raise BadConfig(
            f"ike.prompts: {FILE} is not a demonstration",
            hint=f"two lines: one with {FACT}, one that ends with {ANSWERED}",
        )
    return DemonstrationFormat(fact=lines[0], text=lines[1].removesuffix(ANSWERED))
