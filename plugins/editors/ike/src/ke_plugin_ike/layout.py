"""The format of a demonstration: a line for the fact, and a line for the prompt with its answer."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from ke_core.plugin import BadConfig

FACT, ANSWERED = "{fact}", "{prompt} {answer}"
FILE = "demonstration.txt"


@frozen(kw_only=True)
class DemonstrationFormat:
    """``fact`` is a line with ``{fact}``; ``text`` precedes the prompt in the second line."""

    fact: str
    text: str

    def block(self, facts: Iterable[str], prompt: str, answer: str = "") -> str:
        """Return one demonstration; without an answer, the start of the model's part, without trailing space."""
        lines = [self.fact.replace(FACT, fact) for fact in facts]
        return "\n".join([*lines, f"{self.text}{prompt} {answer}".rstrip()])


def read_layout(written: str) -> DemonstrationFormat:
    """Parse a ``demonstration.txt``. Raises BadConfig if it is not two such lines."""
    lines = written.splitlines()
    if len(lines) != 2 or lines[0].count(FACT) != 1 or not lines[1].endswith(ANSWERED):
        raise BadConfig(
            f"ike.prompts: {FILE} has the wrong format",
            hint=f"write two lines: one with {FACT}, one that ends with {ANSWERED}",
        )
    return DemonstrationFormat(fact=lines[0], text=lines[1].removesuffix(ANSWERED))
