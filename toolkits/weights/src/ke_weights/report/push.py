"""Report of ``ke edit --push``: the answers of the server, and whether the adapter is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from ke_core.app import count_noun, literal, one_line, plain_table
from ke_weights.push import Pushed
from ke_weights.report.edits import ROWS, numbers_table, verify_json
from ke_weights.verify import CheckOutcome


def push_report(made: Pushed) -> Group:
    """Return the server's answers before and after, the numbers, and whether the adapter is loaded."""
    server, found = made.server, made.verification
    order = sorted(found.checked, key=lambda one: one.passed)  # failed ones first
    parts: list[RenderableType] = [literal(f"answers of {server.url}:", "bold"), _answers(order[:ROWS], server.name)]
    if len(order) > ROWS:
        parts.append(literal(f"... and {count_noun(len(order) - ROWS, 'more prompt')}; --json shows all", "dim"))
    parts.append(numbers_table(found, made.wanted))
    kept = f"{made.kept_answers} of {len(order)}"
    parts.append(literal(f"base model {server.base_name}: {kept} answers are the same after loading"))
    parts += [literal(f"the check failed: {reason}", "bold") for reason in made.reasons]
    if made.reasons:
        parts.append(literal(made.stuck or f"the adapter {server.name} was unloaded"))
    else:
        parts.append(literal(f'adapter of rank {made.rank} loaded: request the model "{server.name}"'))
    return Group(*parts)


def _answers(checked: Sequence[CheckOutcome], name: str) -> Table:
    table = plain_table("prompt", "kind", "base model", name, "")
    for one in checked:
        cells = (
            one_line(one.check.prompt, 60),
            one.check.kind,
            *(one_line(c.text, 40) for c in (one.before, one.after)),
        )
        table.add_row(*map(literal, cells), literal("" if one.passed else "failed"))
    return table


def push_json(made: Pushed) -> dict[str, Any]:
    """Return the same as JSON values."""
    return {
        "server": made.server.url,
        "model": made.server.name,
        "base": made.server.base_name,
        "rank": made.rank,
        "loaded": not made.reasons or bool(made.stuck),
        "reasons": list(made.reasons),
        "unload_error": made.stuck or None,
        "base_answers_kept": made.kept_answers,
        **verify_json(made.verification),
    }
