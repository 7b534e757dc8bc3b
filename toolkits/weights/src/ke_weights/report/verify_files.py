"""The result of ``ke verify`` as files for continuous integration: JUnit XML, and a Markdown table."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ke_core.app import one_line
from ke_weights.bounds import Bound
from ke_weights.report.edits import limit, number_rows
from ke_weights.verify import CheckOutcome, Verification, failed

WITHIN = "failed, and all bounds hold"


def junit(found: Verification, wanted: Sequence[Bound]) -> str:
    """Return one test case for each bound and each fact.

    A fact that failed is a failure if a bound was missed or there is none, and skipped otherwise: then the bounds allow
    it.
    """
    suite, bad = Element("testsuite", name="ke verify"), failed(found)
    missed = dict(found.missed)
    for bound in wanted:
        case = SubElement(suite, "testcase", classname="bound", name=f"{bound.metric} {limit(bound)}")
        if bound in missed:
            SubElement(case, "failure", message=f"{bound.metric} is {missed[bound]:.3f}")
    for one in found.checked:
        case = SubElement(suite, "testcase", classname=one.check.kind, name=f"{one.check.id}: {one.check.prompt}")
        if one in bad:
            allowed = bool(wanted) and not found.missed
            SubElement(case, "skipped" if allowed else "failure", message=WITHIN if allowed else _what(one))
    counts = {name: len(suite.findall(f"testcase/{name}")) for name in ("failure", "skipped")}
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(counts["failure"]))
    suite.set("skipped", str(counts["skipped"]))
    indent(suite)
    return tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def markdown(found: Verification, wanted: Sequence[Bound]) -> str:
    """Return a table of the numbers with their bounds, and one of the facts that failed."""
    lines = ["| metric | value | n | bound | |", "| --- | --- | --- | --- | --- |"]
    for *row, verdict in number_rows(found, wanted):
        lines.append(f"| {' | '.join(row)} | {'**missed**' if verdict == 'missed' else verdict} |")
    if bad := failed(found):
        lines += [
            "",
            "| failed | prompt | expected | unedited model | edited model |",
            "| --- | --- | --- | --- | --- |",
        ]
        for one in bad:
            cells = (one.check.id, one.check.prompt, ", ".join(one.check.expect), one.before.text, one.after.text)
            lines.append(f"| {' | '.join(one_line(cell, 60).replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _what(one: CheckOutcome) -> str:
    expected = " or ".join(one.check.expect) or f"as before: {one.before.text}"
    return f"expected {expected}; answered {one.after.text!r}"
