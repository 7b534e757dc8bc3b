"""What runs are called beside one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ke_core.report.run import Reported


def names(runs: Sequence[Reported]) -> list[str]:
    """Of each run what tells it from the others: its editor, size, seed, and options of which others have another."""
    facts = [_facts(run) for run in runs]
    return [
        " ".join(
            [run.spec.editor.name]
            + [f"{name.rpartition('.')[2]}={value}" for name, value in own.items() if _differs(name, facts)]
        )
        for run, own in zip(runs, facts, strict=True)
    ]


def _facts(run: Reported) -> dict[str, str]:
    spec, plan = run.spec, run.spec.plan
    found = {"k": "all" if plan.size is None else str(plan.size), "seed": str(spec.seed), "protocol": plan.protocol}
    found |= {"limit": str(plan.limit), "ask": str(plan.ask), "sequential": str(plan.sequential).lower()}
    found["asked as"] = spec.edited_form
    found |= {name: digest[:8] for name, digest in spec.editor.rests_on.items()}
    for name, value in spec.editor.options.items():
        found[f"{spec.editor.name}.{name}"] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return found


def _differs(name: str, facts: Sequence[Mapping[str, str]]) -> bool:
    """Whether the runs that have it do not have the same; an option bears its editor's name."""
    return len({own[name] for own in facts if name in own}) > 1
