"""Cases and records for the tests of both metrics."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ke_core.plugin import EFFICACY, Case, CaseRecord, Edit, Probe, Query, Verdict
from ke_testing.records import gold, outcome

R, W = Verdict.RIGHT, Verdict.WRONG


def query(name: str, *, pre_edit: str = "y") -> Query:
    return Query(id=name, texts=(f"{name}?",), gold=gold("x"), pre_edit=gold(pre_edit) if pre_edit else None)


def make_case(name: str, edits: int, hops: int, questions: int = 3) -> Case:
    hop = [query(f"hop-{n}") for n in range(1, hops + 1)]
    before = [query(f"old-{n}", pre_edit="") for n in range(1, hops + 1)]
    made = tuple(Edit(id=f"{name}-e{n}", statement="s") for n in range(1, edits + 1))
    return Case(
        id=name,
        edits=made,
        probes=(
            *(
                Probe(id=f"efficacy-{n}", aspect=EFFICACY, queries=(hop[n],), edits=(edit.id,))
                for n, edit in enumerate(made)
            ),
            Probe(id="instance-before", aspect="instance", queries=tuple(before), require="all", phase="before"),
            Probe(id="instance-after", aspect="instance", queries=tuple(hop), require="all"),
            Probe(
                id="multi-hop",
                aspect="multi-hop",
                queries=tuple(query(f"multi-{n}") for n in range(1, questions + 1)),
                phase="both",
            ),
        ),
        tags={"hops": str(hops), "edits": str(edits)},
    )


def make_record(case: Case, *, hops, multi, before=(), old=(), style="direct", **rest) -> CaseRecord:
    def named(phase, prefix, verdicts):
        return {(phase, style, f"{prefix}-{n}"): outcome("x", v) for n, v in enumerate(verdicts, start=1)}

    outcomes = (
        named("after", "hop", hops)
        | named("after", "multi", multi)
        | named("before", "multi", before)
        | named("before", "old", old)
    )
    return CaseRecord(case=case, batch="0", outcomes=outcomes, **rest)


@pytest.fixture
def case() -> Callable[..., Case]:
    """Make a case from its name and its numbers of edits, hops and questions."""
    return make_case


@pytest.fixture
def record() -> Callable[..., CaseRecord]:
    """Make the record of a case from the verdicts on its hops and its questions."""
    return make_record


@pytest.fixture
def one_edit() -> CaseRecord:
    """A case with one edit and two hops; one wording is answered correctly."""
    return make_record(make_case("a", 1, 2), hops=[R, W], multi=[W, R, W], before=[R, W, W], old=[R, R])
