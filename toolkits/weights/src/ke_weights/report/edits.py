"""Tables of ``ke edit`` and ``ke verify``: a model's answers before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from ke_core.app import count_noun, duration, literal, one_line, plain_table
from ke_weights.bounds import Bound
from ke_weights.completions import Completion, PromptComparison
from ke_weights.editing import EditResult
from ke_weights.verify import CheckOutcome, Proportion, Verification, failed, prefers_wrong

ROWS = 20
"""Edits in the table; the counts and --json cover all."""


def edit_report(made: EditResult, written: Sequence[str]) -> Group:
    """Return the answers before and after, the counts, and what was written."""
    own = [one for one in made.comparisons if not one.paraphrase]
    lines = [*_counts(own, [one for one in made.comparisons if one.paraphrase]), *_sizes(made)]
    parts: list[RenderableType] = [_answers(own[:ROWS])]
    if len(own) > ROWS:
        parts.append(literal(f"... and {count_noun(len(own) - ROWS, 'more edit')}; --json shows all", "dim"))
    parts += [literal(line) for line in lines]
    where = "--out FOLDER" if made.saved else "--out FOLDER or --patch FILE"
    nothing = f"nothing was written; use {where} to save the edit"
    parts += [literal(line) for line in written or [nothing]]
    return Group(*parts)


def edit_json(made: EditResult, written: Sequence[str]) -> dict[str, Any]:
    """Return every edit as JSON values."""
    return {
        **_digests(made),
        "seconds": round(made.seconds, 3),
        "written": list(written),
        "edits": [
            {
                "id": one.edit.edit.id,
                "prompt": one.prompt,
                "paraphrase": one.paraphrase,
                "target_new": one.edit.target,
                "target_old": one.edit.old or None,
                "source": one.edit.source,
                "date": one.edit.date,
                "before": _completion_json(one.before),
                "after": _completion_json(one.after),
                "generated": one.generated,
                "preferred": one.preferred,
            }
            for one in made.comparisons
        ],
    }


def verify_report(found: Verification, wanted: Sequence[Bound]) -> Group:
    """Return the numbers with their bounds, then every failed line."""
    bad = failed(found)
    parts: list[RenderableType] = [numbers_table(found, wanted)]
    if bad:
        parts += [literal(f"{count_noun(len(bad), 'fact')} of {len(found.checked)} failed:", "bold"), _failures(bad)]
    return Group(*parts, literal(verdict(found, wanted), "bold"))


def verdict(found: Verification, wanted: Sequence[Bound]) -> str:
    """Return the last line of ``ke verify``: which bounds were missed."""
    if not wanted:
        return "no bound is set: add --min or --max to check one"
    missed = ", ".join(f"{bound.metric} {limit(bound)}" for bound, _value in found.missed)
    return f"missed: {missed}" if missed else "all bounds are met"


def numbers_table(found: Verification, wanted: Sequence[Bound]) -> Table:
    """Return the numbers with their bounds."""
    table = plain_table("metric", "value", "n", "bound", "")
    for row in number_rows(found, wanted):
        table.add_row(*map(literal, row))
    return table


def number_rows(found: Verification, wanted: Sequence[Bound]) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield name, value, n, bounds, and "met", "missed" or an empty text, for each number that was measured."""
    missed = {bound for bound, _value in found.missed}
    for number in found.numbers:
        if number.n:
            own = [bound for bound in wanted if bound.metric == number.metric]
            verdict = "missed" if missed & set(own) else "met" if own else ""
            limits = ", ".join(map(limit, own))
            yield number.metric, _value(number), str(number.n), limits, verdict


def limit(bound: Bound) -> str:
    """Return a bound in words, such as ``>= 0.9``."""
    return f"{'>=' if bound.least else '<='} {bound.value:g}"


def verify_json(found: Verification) -> dict[str, Any]:
    """Return the same as JSON values."""
    return {
        "passed": not found.missed,
        "numbers": {one.metric: {"value": one.value, "n": one.n} for one in found.numbers},
        "missed": [
            {"metric": bound.metric, "min" if bound.least else "max": bound.value, "value": value}
            for bound, value in found.missed
        ],
        "facts": [
            {
                "id": one.check.id,
                "kind": one.check.kind,
                "prompt": one.check.prompt,
                "expect": list(one.check.expect),
                "not": list(one.check.wrong),
                "before": _completion_json(one.before),
                "after": _completion_json(one.after),
                "passed": one.passed,
                "passed_before": one.passed_before,
                "preferred": one.preferred,
            }
            for one in found.checked
        ],
    }


def _answers(comparisons: Sequence[PromptComparison]) -> Table:
    table = plain_table("prompt", "new object", "before", "after", "log p")
    for one in comparisons:
        table.add_row(
            literal(one_line(one.prompt, 60)),
            literal(one_line(one.edit.target, 30)),
            literal(one_line(one.before.text, 40)),
            literal(one_line(one.after.text, 40), "bold" if one.generated else ""),
            literal(f"{one.before.logprobs[0]:.2f} -> {one.after.logprobs[0]:.2f}" if one.edit.target else ""),
        )
    return table


def _counts(own: Sequence[PromptComparison], others: Sequence[PromptComparison]) -> list[str]:
    lines = [f"new object generated: {_of(one.generated for one in own if one.edit.target)}"]
    if any(one.preferred is not None for one in own):
        lines.append(
            f"new object more probable than old: {_of(one.preferred for one in own if one.preferred is not None)}"
        )
    if others:
        lines.append(f"generated after a paraphrase: {_of(one.generated for one in others)}")
    return lines


def _digests(made: EditResult) -> dict[str, str | None]:
    """Return the digests of the weights for a patch, of the whole model for an adaptor."""
    if made.patch is not None:
        return {"patch": made.patch.id, "base": made.patch.info.base.weights, "edited": made.patch.info.edited}
    assert made.saved is not None
    return {"patch": None, "base": made.saved.model.digest, "edited": made.saved.edited}


def _sizes(made: EditResult) -> list[str]:
    if made.patch is None:
        return [f"no weight changed, in {duration(made.seconds)}"]
    weights = made.patch.info.weights
    largest = max((one.norm / one.base_norm for one in weights if one.base_norm), default=0.0)
    many = count_noun(len(weights), "weight")
    lines = [f"{many} changed (relative norm of the update: at most {largest:.2%}), in {duration(made.seconds)}"]
    details = made.patch.info.details
    told = [one["warning"] for one in (details, *details.get("batches", ())) if "warning" in one]
    if largest > 1 and not told:
        told = ["an update is larger than its weight: expect damage to the rest of the model"]
    return lines + [f"warning: {words}; check it with ke verify" for words in dict.fromkeys(told)]


def _failures(bad: Sequence[CheckOutcome]) -> Table:
    table = plain_table("id", "kind", "prompt", "expected", "unedited", "edited")
    for one in bad:
        without = f"not {', '.join(one.check.wrong)}" if one.check.wrong else ""
        expected = "; ".join(part for part in (", ".join(one.check.expect) or "unchanged", without) if part)
        cells = (one.check.id, one.check.kind, one.check.prompt, expected, one.before.text, one.after.text)
        rest = f" (not more probable than {one_line(one.check.wrong[0], 30)})" if prefers_wrong(one) else ""
        *short, edited = (one_line(cell, 44) for cell in cells)
        table.add_row(*map(literal, short), literal(edited + rest))
    return table


def _of(flags: Any) -> str:
    listed = list(flags)
    return f"{sum(listed)} of {len(listed)}"


def _value(number: Proportion) -> str:
    return "-" if number.value is None else f"{number.value:.3f}"


def _completion_json(completion: Completion) -> dict[str, Any]:
    return {"text": completion.text, "logprobs": list(completion.logprobs)}
