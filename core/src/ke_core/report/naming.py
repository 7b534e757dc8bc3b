"""What runs are called beside one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ke_core.report.run import Reported


def run_names(runs: Sequence[Reported]) -> list[str]:
    """Of each run what tells it from the others: its editor, size, seed, and options of which others have another.

    As a command line has them; what was not set is not said. An editor that was given each question's own edits is
    marked.
    """
    facts = [_facts(run) for run in runs]
    return [
        " ".join(
            [run.spec.editor.name]
            + [f"{name}={value}" for name, value in own.items() if value and _differs(name, facts)]
            + (["(given own edits)"] if run.spec.own_edits else [])
        )
        for run, own in zip(runs, facts, strict=True)
    ]


def _facts(run: Reported) -> dict[str, str]:
    """Empty for what was not set: it differs from what was."""
    spec, plan = run.spec, run.spec.plan
    size = "batch" if plan.protocol == "partition" else "edited"
    found = {size: "all" if plan.size is None else str(plan.size), "seed": str(spec.seed), "protocol": plan.protocol}
    found |= {"limit": _words(plan.limit), "ask": _words(plan.ask), "sequential": _words(plan.sequential)}
    found["asked as"] = spec.edited_form
    found |= {name: digest[:8] for name, digest in spec.editor.rests_on.items()}
    return found | {f"{spec.editor.name}.{name}": _words(value) for name, value in spec.editor.options.items()}


def _words(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _differs(name: str, facts: Sequence[Mapping[str, str]]) -> bool:
    """Whether the runs that have it do not have the same; an option bears its editor's name."""
    return len({own[name] for own in facts if name in own}) > 1
