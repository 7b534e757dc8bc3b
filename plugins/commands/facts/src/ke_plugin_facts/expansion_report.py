"""What ``ke facts expand`` prints."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType

from ke_core.app import count_noun, literal, one_line, plain_table
from ke_plugin_facts.expanding import Expansion
from ke_plugin_facts.fact_file import FactFile


def expansion_report(made: Expansion, file: FactFile) -> Group:
    """Return the proposed tests of each fact, and the facts without any."""
    parts: list[RenderableType] = []
    for at, fact in enumerate(file.facts):
        tests = [test for test in made.tests if test.fact == at]
        if not tests:
            continue
        table = plain_table("kind", "criterion", "prompt", "answer")
        for test in tests:
            cells = (test.kind, test.criterion, one_line(test.prompt, 70), one_line(", ".join(test.expect), 30))
            table.add_row(*map(literal, cells))
        parts += [literal(one_line(fact.given.edit.statement, 100), "bold"), table]
    for at, reason in sorted(made.reasons.items()):
        parts.append(literal(f"not expanded: {one_line(file.facts[at].given.edit.statement, 70)}: {reason}"))
    expanded = len(file.facts) - len(made.reasons)
    counts = f"{count_noun(len(made.tests), 'test')} proposed for {expanded} of {count_noun(len(file.facts), 'fact')}"
    return Group(*parts, literal(counts, "bold"))


def expansion_json(made: Expansion, file: FactFile) -> dict[str, Any]:
    """Return the same as JSON values."""
    return {
        "tests": [
            {
                "fact": file.facts[test.fact].id,
                "kind": test.kind,
                "criterion": test.criterion,
                "prompt": test.prompt,
                "expect": list(test.expect),
                "not": list(test.wrong),
            }
            for test in made.tests
        ],
        "not_expanded": [
            {"fact": file.facts[at].id, "statement": file.facts[at].given.edit.statement, "reason": reason}
            for at, reason in sorted(made.reasons.items())
        ],
    }
