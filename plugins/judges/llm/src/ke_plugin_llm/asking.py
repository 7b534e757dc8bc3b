"""Requests to the model of a judge, and strict parsing of its labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ke_core.plugin import Failure, Finding, Item, KEError, Procedure, Session

PLACE = re.compile(r"\{(\w+)\}")
MARKED = re.compile(r"^[\s*#_]*label[\s*_]*:(.*)$", re.IGNORECASE | re.MULTILINE)
AROUND = " \t*_`\"'.<>[]"


def answered(item: Item) -> bool:
    """Return whether the reply contains an answer."""
    return item.answer.outcome == "answered" and bool(item.answer.text.strip())


def answers(
    session: Session[Any] | None, procedures: Mapping[str, Procedure[Any]], *, judge: str, unsure: Callable[[str], str]
) -> dict[str, Any]:
    """Return the result of each procedure by name. A failure due to one prompt (too long, refused) is a finding.

    ``unsure`` returns the label of such a finding, by name. Raises KEError if the model fails or is missing.
    """
    if not procedures:
        return {}
    if session is None:
        raise KEError(f"judge {judge} needs a model", hint="pass --judge-model [SOURCE:]ID")
    found = session.engine.run(procedures)
    for name, result in found.items():
        if isinstance(result, Failure):
            found[name] = _failed(result, unsure(name))
    return found


def _failed(failure: Failure, label: str) -> Finding:
    why = f"{failure.error}: {failure.message}"
    if not failure.particular:
        raise KEError(
            f"the judge's model failed ({why})",
            hint="judgments so far are saved; fix the cause and run the same command again",
        )
    return Finding(item=failure.error, label=label, note=why)


def filled(template: str, **values: str) -> str:
    """Return ``template`` with its placeholders replaced, each value on one line.

    Placeholders inside values are not replaced. Values are joined to one line so that they cannot add lines such as a
    label.
    """
    return PLACE.sub(lambda place: " ".join(values[place[1]].split()) if place[1] in values else place[0], template)


def parse_label(written: str, labels: Sequence[str]) -> str:
    """Return the label after the last ``Label:``; empty if there is none, or if it is not a valid label."""
    found = MARKED.findall(written)
    given = re.sub(r"[\s_]+", "-", found[-1].strip(AROUND).casefold()) if found else ""
    return given if given in labels else ""


def labeled(item: str, written: str, labels: Sequence[str], unsure: str) -> Finding:
    """Return the finding that the model's output contains; ``unsure`` without a valid label."""
    return Finding(item=item, label=parse_label(written, labels) or unsure, note=written.strip())
