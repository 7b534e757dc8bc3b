"""Count edits and model calls: what published code repeats, and what ``ke`` does once.

    python benchmarks/calls.py

The script counts calls of a model that answers immediately; it measures no time. RippleEdits-style cases are tested by
six criteria, each with conditions. Published code repeats the edit for every criterion, and requests the conditions
again for every editor. Three editors over the same cases need the answers of the unedited model once; separate runs
request them three times. The script fails if there are more edits than cases, or if the second editor sends a request
to the unedited model.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.engine.passthrough import PassthroughModel
from ke_core.plugin import EditorSpec, ModelSpec, hookimpl
from ke_core.plugins.catalog import Catalog, read_catalog
from ke_core.plugins.manager import discover
from ke_core.results.folder import RunFolder
from ke_core.runner.evaluate import evaluate, prepare
from ke_core.runner.run import EvalRequest
from ke_core.runner.session import ModelChoice
from ke_core.spec.facts import Edit
from ke_core.spec.protocols import Edited, Session
from ke_core.spec.requests import Generate, Generated, Score
from ke_core.spec.results import Scored
from ke_core.spec.runspec import Plan
from ke_core.spec.specs import ModelRequest
from ke_testing.fakes import EchoModel, SilentProgress

DATASETS = {"ripple-edits-atlas": True, "mquake-atlas": False}
"""Whether the published evaluator makes the edit once per criterion (True) or once per case."""
EDITORS = ("first", "second", "third")


class Counted(EchoModel):
    """A model that answers immediately. ``asked``: number of requests that reached it, by the active edit."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.edit = "unedited"
        self.edits = 0

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """Count the requests and answer them."""
        self._count(len(requests))
        return super().generate(requests)

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """Count the requests and answer them."""
        self._count(len(requests))
        return super().score(requests)

    @property
    def digest(self) -> str:
        """Return a digest that changes with every edit."""
        return f"{super().digest}{self.edit}"

    def state(self) -> Mapping[str, object]:
        """Return the active edit."""
        return {"edit": self.edit}

    def _count(self, requests: int) -> None:
        kind = "unedited" if self.edit == "unedited" else "edited"
        self.asked[kind] = self.asked.get(kind, 0) + requests


class Labeled:
    """An editor that only sets the active edit of a ``Counted`` model."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, _session: Session[Any], _edits: Sequence[Edit]) -> Mapping[str, str]:
        """Accept every edit."""
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Set the active edit and reset it on exit."""
        before = session.model.edit
        session.model.edit = f"{self.name}:{','.join(edit.id for edit in edits)}"
        session.model.edits += 1
        try:
            yield PassthroughModel(session)
        finally:
            session.model.edit = before


def _built(name: str, _config: object) -> Labeled:
    return Labeled(name)


MODEL = Counted()


class Plugin:
    """The counting model and three editors."""

    @hookimpl
    def ke_models(self) -> list[ModelSpec]:
        """Register ``count:it``."""
        return [ModelSpec(name="count", summary="counts", config=ModelRequest, build=lambda _request: MODEL)]

    @hookimpl
    def ke_editors(self) -> list[EditorSpec]:
        """Register three identical editors."""
        return [EditorSpec(name=name, summary=name, build=partial(_built, name)) for name in EDITORS]


@frozen(kw_only=True)
class Count:
    """Counts of one run: cases, criteria, conditions, edits, and requests to the unedited and the edited model."""

    cases: int
    criteria: int
    conditions: int
    edits: int
    unedited: int
    edited: int


def counted(catalog: Catalog, dataset: str, editor: str, cases: int, root: Path) -> Count:
    """Run one editor."""
    MODEL.asked.clear()
    MODEL.edits = 0
    request = EvalRequest(
        editor=editor, dataset=dataset, model=ModelChoice(reference="count:it"), plan=Plan(size=1, limit=cases)
    )
    job = prepare(request, catalog, SilentProgress(), model=MODEL)
    evaluate(job, RunFolder.create(root / f"{dataset}-{editor}", job.spec))
    return Count(
        cases=len(job.cases),
        criteria=sum(len({probe.aspect for probe in case.probes}) for case in job.cases),
        conditions=sum(len(probe.given) for case in job.cases for probe in case.probes),
        edits=MODEL.edits,
        unedited=MODEL.asked.get("unedited", 0),
        edited=MODEL.asked.get("edited", 0),
    )


def compared(catalog: Catalog, dataset: str, cases: int, root: Path) -> bool:
    """Run three editors, print the counts, and return whether no request was repeated."""
    runs = [counted(catalog, dataset, editor, cases, root) for editor in EDITORS]
    first = runs[0]
    print(f"{dataset}: {first.cases} cases with {first.criteria} criteria and {first.conditions} conditions, ", end="")
    print(f"{len(runs)} editors")
    edits = (
        f"{first.criteria} edits per editor, one per criterion"
        if DATASETS[dataset]
        else f"{first.cases} edits per editor"
    )
    print(f"  published  {edits}; requests to the unedited model: ", end="")
    print(f"{len(runs) * first.unedited}, {first.unedited} per editor")
    print(f"  ke         {', '.join(str(one.edits) for one in runs)} edits; requests to the unedited model: ", end="")
    print(f"{sum(one.unedited for one in runs)} ({', '.join(str(one.unedited) for one in runs)}); ", end="")
    print(f"to edited models: {', '.join(str(one.edited) for one in runs)}")
    return all(one.edits == one.cases for one in runs) and not any(one.unedited for one in runs[1:])


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300)
    cases = parser.parse_args().cases
    plugins = discover()
    plugins.register(Plugin(), "calls")
    catalog = read_catalog(plugins)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KE_CACHE_DIR"] = folder
        once = [compared(catalog, dataset, cases, Path(folder)) for dataset in DATASETS]
    if not all(once):
        sys.exit("something was done twice")


if __name__ == "__main__":
    main()
