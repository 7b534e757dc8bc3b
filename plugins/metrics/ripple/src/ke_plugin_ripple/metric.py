"""RippleEdits' score (Cohen et al. 2024, sections 3 and 5.1), from the records of one edit.

===================== =============================================================================================
aspect                value
===================== =============================================================================================
edit-success          1 if the edited model names the new object; edits with 0 are excluded below
executed              for each test: 1 if the unedited model meets its conditions (Table 2: fraction of tests left)
LG, CI, CII, SA,      for each edit: the fraction of its executed queries that are answered correctly; None if none
PV, RS                was executed. The mean over edits is the paper's number. Full names: ``CRITERIA``
the same and "-each"  for each query (or test, by ``unit``), tagged with its id, so that runs can be compared on what
                      all of them executed; None with the reason if it was not executed
ripple                the unweighted mean of the six criteria's means, computed by the core
                      (``MetricSpec.averages``)
===================== =============================================================================================

A test that was not executed is excluded from every average: the unedited model fails one of its conditions, or the
data contain no name for a right answer. An edit without tests of a criterion has no value of it, rather than 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from attrs import evolve, field, frozen

from ke_core.plugin import (
    EDITS_WITHHELD,
    EFFICACY,
    JUDGE_UNSURE,
    NOT_ON_RECORD,
    QUERY_TAG,
    CaseRecord,
    NoValue,
    Outcome,
    Probe,
    Query,
    Value,
    Verdict,
    outcome_of,
)
from ke_plugin_ripple import CRITERIA, EACH, RippleConfig

ALIASING = "subject-aliasing"
FAILED = "the edit did not succeed"
NOT_PUT = "the unedited model was not asked a condition"
NOT_MET = "not executed: the unedited model fails a condition"
NO_OLD = "not executed: the unedited model does not name the old object"
NO_NAME = "not executed: no right answer in the data has a name"


@frozen(kw_only=True)
class CriterionResult:
    """One test of a criterion: the results of its queries, or why it was not executed."""

    __test__ = False  # not a pytest test

    probe: Probe
    right: Sequence[bool] = ()
    missing: str = ""


@frozen
class Ripple:
    """Computes values from records."""

    config: RippleConfig = field(factory=RippleConfig)

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield every observation of this case, in every style of the edited model."""
        for style in record.styles("after") or ("",):
            yield from self._values(record, style)

    def _values(self, record: CaseRecord, style: str) -> Iterator[Value]:
        took, missing = self._took(record, style)
        if took is not None or missing:
            yield _value("edit-success", took, style, missing)
        missing = missing or (FAILED if took is False and self.config.edits == "successful" else "")
        probes = [probe for probe in record.case.probes if probe.aspect in CRITERIA]
        for aspect, of_aspect in groupby(sorted(probes, key=_place), key=lambda probe: probe.aspect):
            tests = [self._test(record, probe, style, missing) for probe in of_aspect]
            if not missing:
                yield from (_executed(aspect, test, style) for test in tests)
            yield from self._scores(aspect, tests, style)

    def _scores(self, aspect: str, tests: Sequence[CriterionResult], style: str) -> Iterator[Value]:
        """Yield the values that the paper averages over edits, then the single queries or tests."""
        each = [one for test in tests for one in self._each(test)]
        right = [one for _name, one, _why in each if one is not None]
        if right:
            yield _value(aspect, sum(right) / len(right), style, "")
        else:
            yield _value(aspect, None, style, tests[0].missing)
        for name, one, why in each:
            yield evolve(_value(aspect + EACH, one, style, why), tags={QUERY_TAG: name})

    def _each(self, test: CriterionResult) -> Iterator[tuple[str, bool | None, str]]:
        """Yield the id of each query, or of the whole test, with whether it was answered correctly, or the reason if
        unknown.
        """
        if self.config.unit == "tests":
            passed = any(test.right) if test.probe.require == "any" else all(test.right)
            yield test.probe.id, None if test.missing else passed, test.missing
            return
        for at, query in enumerate(test.probe.queries):
            yield query.id, None if test.missing else test.right[at], test.missing

    def _took(self, record: CaseRecord, style: str) -> tuple[bool | None, str]:
        """Return whether the edited model names the new object (condition b of section 5.1), or why it is unknown."""
        queries = [query for probe in record.case.probes if probe.aspect == EFFICACY for query in probe.queries]
        if record.skipped or not record.edited:
            return None, record.skipped or EDITS_WITHHELD
        if not queries:
            return None, ""
        try:
            return all(self._right(record, query, style) for query in queries), ""
        except NoValue as why:
            return None, str(why)

    def _test(self, record: CaseRecord, probe: Probe, style: str, missing: str) -> CriterionResult:
        if missing:
            return CriterionResult(probe=probe, missing=missing)
        try:
            self._check(record, probe, style)
            return CriterionResult(probe=probe, right=[self._right(record, query, style) for query in probe.queries])
        except NoValue as why:
            return CriterionResult(probe=probe, missing=str(why))

    def _check(self, record: CaseRecord, probe: Probe, style: str) -> None:
        """Raise unless the unedited model meets every condition (condition a of section 5.1)."""
        if not all(query.gold.entities for query in (*probe.queries, *probe.given)):
            raise NoValue(NO_NAME)
        aliasing = self.config.aliasing if probe.aspect == ALIASING else "file"
        if self.config.conditions == "ignored" or aliasing == "none":
            return
        for query in probe.given:
            outcome = _before(record, query, style)
            old = aliasing == "old" and query.pre_edit is not None
            if old and outcome.judgment.verdict is not Verdict.PRE_EDIT:
                raise NoValue(NO_OLD)
            if not old and not self._is_right(outcome, query):
                raise NoValue(NOT_MET)

    def _right(self, record: CaseRecord, query: Query, style: str) -> bool:
        return self._is_right(outcome_of(record, "after", style, query.id), query)

    def _is_right(self, outcome: Outcome, query: Query) -> bool:
        if outcome.judgment.verdict is Verdict.UNSURE:
            raise NoValue(JUDGE_UNSURE if query.gold.entities else NO_NAME)
        if outcome.judgment.verdict is not Verdict.RIGHT:
            return False
        named = {found.entity for found in outcome.judgment.findings if found.label == "gold"}
        return self.config.targets == "any" or {entity.key for entity in query.gold.entities} <= named


def _before(record: CaseRecord, query: Query, style: str) -> Outcome:
    """Return the unedited model's reply, in the same style, or in its own if the editor has its own prompts."""
    for name in (style, *record.styles("before")):
        found = record.outcomes.get(("before", name, query.id))
        if found is not None:
            return found
    raise NoValue(NOT_PUT)


def _executed(aspect: str, test: CriterionResult, style: str) -> Value:
    """Return 1 or 0. Values that are missing for other reasons than the paper's filter do not count."""
    odd = test.missing in (NOT_PUT, NOT_ON_RECORD, JUDGE_UNSURE)
    value = None if odd else float(not test.missing)
    tags = {"criterion": CRITERIA[aspect]}
    return Value(aspect="executed", value=value, style=style, tags=tags, skipped_because=test.missing if odd else "")


def _value(aspect: str, value: float | None, style: str, missing: str) -> Value:
    number = None if value is None else float(value)
    return Value(aspect=aspect, value=number, style=style, skipped_because=missing if number is None else "")


def _place(probe: Probe) -> int:
    return list(CRITERIA).index(probe.aspect)
