"""How often an answer is gibberish, by the rules of ``ke_plugin_gibberish.rules``.

``gibberish`` is 1 where any rule is broken; ``loops``, ``scripts`` and ``symbols`` say which. What is looked at is all
that the model wrote, not only the answer cut out of it; of a method that goes by steps it is the answer, since what it
retrieved stands between its steps. Silence is no gibberish.
"""

from __future__ import annotations

from collections.abc import Iterator

from ke_core.plugin import Answer, CaseRecord, Value, observed
from ke_plugin_gibberish.rules import loops, scripts, symbols

RULES = {"loops": loops, "scripts": scripts, "symbols": symbols}


class Gibberish:
    """Reads records; nothing else."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Four observations for each answer, before the edits and after; controls show what other edits do."""
        for seen in observed(record, "before", "after"):
            text = _written(seen.answer) if seen.answer else ""
            broken = {name: rule(text) for name, rule in RULES.items()}
            why = seen.wordless
            for name, is_broken in {"gibberish": any(broken.values()), **broken}.items():
                yield seen.value(name, None if why else float(is_broken), why)


def _written(answer: Answer) -> str:
    return answer.text if answer.steps else answer.raw or answer.text
