"""How often editors edit and models are asked: what published code repeats, and what is asked once here.

    python benchmarks/calls.py

Nothing is timed: calls are counted, of a model that answers at once. RippleEdits-style cases are tested by six
criteria, each with its conditions; published code makes the edit anew for every criterion and asks the conditions anew
for every editor. Three editors over the same cases need the unedited model's answers once.
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

from ke_core.data.facts import Edit
from ke_core.data.results import Scored
from ke_core.data.runspec import Plan
from ke_core.engine.direct import Direct
from ke_core.plugin import EditorSpec, ModelSpec, hookimpl
from ke_core.plugins.catalog import Catalog, read
from ke_core.plugins.manager import discover
from ke_core.protocols import Edited, Session
from ke_core.requests import Generate, Generated, Score
from ke_core.results.folder import RunFolder
from ke_core.run.evaluation import EvalRequest, prepare, run
from ke_core.run.session import ModelChoice
from ke_core.specs import ModelRequest
from ke_core.testing.fakes import EchoModel, Silence


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


class Labelled:
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
            yield Direct(session)
        finally:
            session.model.edit = before


def _built(name: str, _config: NoOptions) -> Labelled:
    return Labelled(name)


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
        names = ("first", "second", "third")
        return [EditorSpec(name=name, summary=name, config=NoOptions, build=partial(_built, name)) for name in names]


def counted(catalog: Catalog, dataset: str, editors: Sequence[str], cases: int, root: Path) -> None:
    """Run the editors one after another, and print what was asked."""
    for name in editors:
        MODEL.asked.clear()
        MODEL.edits = 0
        request = EvalRequest(
            editor=name, dataset=dataset, model=ModelChoice(reference="count:it"), plan=Plan(size=1, limit=cases)
        )
        job = prepare(request, catalog, Silence(), model=MODEL)
        run(job, RunFolder.create(root / f"{dataset}-{name}", job.spec))
        probes = sum(len({probe.aspect for probe in case.probes}) for case in job.cases)
        conditions = sum(len(probe.given) for case in job.cases for probe in case.probes)
        print(
            f"{dataset}, {name}: {len(job.cases)} cases with {probes} criteria and {conditions} conditions; "
            f"{MODEL.edits} edits, unedited model asked {MODEL.asked.get('unedited', 0)} times, "
            f"edited models {MODEL.asked.get('edited', 0)}"
        )


def main() -> int:
    """Count, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=300)
    cases = parser.parse_args().cases
    plugins = discover()
    plugins.register(Plugin(), "calls")
    catalog = read(plugins)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KE_CACHE_DIR"] = folder
        for dataset in ("ripple-edits-atlas", "mquake-atlas"):
            counted(catalog, dataset, ("first", "second", "third"), cases, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
