"""How often an answer is gibberish, by the rules of ``ke_plugin_gibberish.rules``.

``gibberish`` is 1 if any rule matches; ``loops``, ``scripts`` and ``symbols`` show which. The rules read the whole
output. For a method with steps they read only the answer, because retrieved text is between its steps. An empty answer
is not gibberish.
"""

from __future__ import annotations

from collections.abc import Iterator

from ke_core.plugin import Answer, CaseRecord, Value, observed
from ke_plugin_gibberish.rules import loops, scripts, symbols

RULES = {"loops": loops, "scripts": scripts, "symbols": symbols}


class Gibberish:
    """Computes values from records."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield four observations for each answer in both phases. Controls show the effect of other edits."""
        for seen in observed(record, "before", "after"):
            text = _written(seen.answer) if seen.answer else ""
            broken = {name: rule(text) for name, rule in RULES.items()}
            why = seen.wordless
            for name, is_broken in {"gibberish": any(broken.values()), **broken}.items():
                yield seen.value(name, None if why else float(is_broken), why)


def _written(answer: Answer) -> str:
    return answer.text if answer.steps else answer.raw or answer.text
