"""How often editors edit and models are asked: what published code repeats, and what is asked once here.

    python benchmarks/calls.py

Nothing is timed: calls are counted, of a model that answers at once. RippleEdits-style cases are tested by six
criteria, each with its conditions; published code makes the edit anew for every criterion and asks the conditions anew
for every editor. Three editors over the same cases need the unedited model's answers once; separate runs ask for them
three times. More edits than cases, or a question asked of the unedited model by the second editor, is a failure.
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
"""Whether the published evaluator makes the edit once a criterion, or once a case."""
EDITORS = ("first", "second", "third")


class Counted(EchoModel):
    """Answers at once. ``asked``: requests that reached the model, by what edit was in force."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.edit = "unedited"
        self.edits = 0

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """As the model does, counted."""
        self._count(len(requests))
        return super().generate(requests)

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """As the model does, counted."""
        self._count(len(requests))
        return super().score(requests)

    @property
    def digest(self) -> str:
        """Another with every edit, as of weights that change."""
        return f"{super().digest}{self.edit}"

    def state(self) -> Mapping[str, object]:
        """The edit in force."""
        return {"edit": self.edit}

    def _count(self, requests: int) -> None:
        kind = "unedited" if self.edit == "unedited" else "edited"
        self.asked[kind] = self.asked.get(kind, 0) + requests


@frozen(kw_only=True)
class NoOptions:
    """None."""


class Labeled:
    """Edits a ``Counted`` model by noting that it is edited."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, _session: Session[Any], _edits: Sequence[Edit]) -> Mapping[str, str]:
        """Everything can be edited."""
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Note it, and take it back."""
        before = session.model.edit
        session.model.edit = f"{self.name}:{','.join(edit.id for edit in edits)}"
        session.model.edits += 1
        try:
            yield PassthroughModel(session)
        finally:
            session.model.edit = before


def _built(name: str, _config: NoOptions) -> Labeled:
    return Labeled(name)


MODEL = Counted()


class Plugin:
    """The counting model and three editors."""

    @hookimpl
    def ke_models(self) -> list[ModelSpec]:
        """``count:it``."""
        return [ModelSpec(name="count", summary="counts", config=ModelRequest, build=lambda _request: MODEL)]

    @hookimpl
    def ke_editors(self) -> list[EditorSpec]:
        """Three that do the same."""
        return [EditorSpec(name=name, summary=name, config=NoOptions, build=partial(_built, name)) for name in EDITORS]


@frozen(kw_only=True)
class Count:
    """What one editor's run took: cases, their criteria and conditions, edits, and what either model was asked."""

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
    """Run three editors one after another, print what was asked, and say whether nothing was asked twice."""
    runs = [counted(catalog, dataset, editor, cases, root) for editor in EDITORS]
    first = runs[0]
    print(f"{dataset}: {first.cases} cases with {first.criteria} criteria and {first.conditions} conditions, ", end="")
    print(f"{len(runs)} editors")
    edits = (
        f"{first.criteria} edits an editor, one a criterion" if DATASETS[dataset] else f"{first.cases} edits an editor"
    )
    print(f"  published  {edits}; the unedited model asked ", end="")
    print(f"{len(runs) * first.unedited} times, {first.unedited} an editor")
    print(f"  ours       {', '.join(str(one.edits) for one in runs)} edits; the unedited model asked ", end="")
    print(f"{sum(one.unedited for one in runs)} times: {', '.join(str(one.unedited) for one in runs)}; ", end="")
    print(f"edited models {', '.join(str(one.edited) for one in runs)}")
    return all(one.edits == one.cases for one in runs) and not any(one.unedited for one in runs[1:])


def main() -> None:
    """Count, print."""
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
