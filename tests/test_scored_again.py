"""Scores depend only on the records: any process computes the same bytes again."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import frozen

from ke_core.app import installed_catalog
from ke_core.engine.passthrough import PassthroughModel
from ke_core.plugin import (
    Answer,
    Case,
    Edit,
    EditorRequest,
    EditorSpec,
    ModelSpec,
    Question,
    Reply,
    Session,
    Step,
    UnsupportedChange,
    hookimpl,
)
from ke_core.plugins.catalog import Catalog, read_catalog
from ke_core.plugins.manager import discover
from ke_core.results.folder import SCORES, RunFolder
from ke_core.results.seal import SEAL
from ke_core.runner.evaluate import evaluate, judge_folder, prepare, score_folder
from ke_core.runner.judging import JudgeModel
from ke_core.runner.run import EvalRequest
from ke_core.runner.session import ModelChoice
from ke_core.spec.queries import expected
from ke_core.spec.runspec import Plan
from ke_testing.fakes import ScriptedModel, SilentProgress

pytestmark = pytest.mark.integration

METRICS = installed_catalog().names("metric")
OF = {
    "classic": "edits",
    "coherence": "recoe-atlas",
    "correct-flip": "recoe-atlas",
    "fact-perplexity": "recoe-atlas",
    "fact-recall": "recoe-atlas",
    "ripple": "ripple-edits-atlas",
    "set-answers": "compke-atlas",
}
"""The benchmarks of a metric; other metrics fit any benchmark."""
BY_LLM = ("coherence", "fact-recall")
LM_EVAL = {"lm-eval": {"tasks": "ke_choice", "limit": 2}}
CASES = 6
AGAIN = """
import hashlib, json, pathlib, sys
from ke_core.cli.app import App
from ke_core.cli.main import build, invoke
from ke_core.plugins.manager import discover
found = {}
for metric, (run, more) in json.loads(sys.argv[1]).items():
    app = App(discover())
    assert not invoke(build(app), ["score", run, "--metric", metric, *more], app)
    found[metric] = hashlib.sha256(pathlib.Path(run, "scores.json").read_bytes()).hexdigest()
pathlib.Path(sys.argv[2]).write_text(json.dumps(found))
"""


@frozen(kw_only=True)
class Told:
    """An edited model that knows most answers, writes thoughts first, and retrieves the first edit."""

    session: Session[Any]
    edits: tuple[Edit, ...]
    answers: Mapping[tuple[str, str], str]

    @property
    def details(self) -> Mapping[str, object]:
        return {}

    def answer(self, asks: Sequence[EditorRequest]) -> list[Reply]:
        return [
            self._one(ask) if isinstance(ask, Question) else PassthroughModel(self.session).answer([ask])[0]
            for ask in asks
        ]

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        raise UnsupportedChange("an answer is told whatever the edits")

    def _one(self, ask: Question) -> Answer:
        right = self.answers.get((ask.case, ask.query), "")
        said = (right, right, "unknown", right, f"the {right}", "Atlantis")[zlib.crc32(ask.id.encode()) % 6]
        step = Step(kind="subquestion", text=ask.texts[0], retrieved=(self.edits[0].id,), scores=(0.5,), answer=said)
        raw = f"It was said that {self.edits[0].statement}. It follows.\nAnswer: {said}"
        return Answer(text=said, raw=raw, steps=(step,))


class Plugin:
    """The editor ``told`` and the models ``fake:knows`` and ``fake:judges``, which replies to judges."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], str] = {}
        self.before: dict[str, str] = {}

    def learn(self, cases: Sequence[Case]) -> None:
        for case in cases:
            for probe in case.probes:
                for query in probe.queries:
                    after, old = (expected(query, probe, at, edited=True) for at in ("after", "before"))
                    self.answers[case.id, query.id] = ", ".join(entity.label for entity in after.gold.entities)
                    known = ", ".join(entity.label for entity in old.gold.entities)
                    self.before |= dict.fromkeys((*query.texts, query.cloze or query.texts[0]), known)

    def knows(self, prompt: str) -> str:
        found = [text for text in self.before if text in prompt[-400:]]
        return f" {self.before[max(found, key=len)]}\n" if found else " unknown\n"

    @hookimpl
    def ke_editors(self) -> list[EditorSpec]:
        return [EditorSpec(name="told", summary="told", build=lambda _config: self)]

    def check(self, session: object, edits: Sequence[Edit]) -> dict[str, str]:
        del session, edits
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Told]:
        yield Told(session=session, edits=tuple(edits), answers=self.answers)

    @hookimpl
    def ke_models(self) -> list[ModelSpec]:
        says = {"knows": self.knows, "judges": _judges}
        return [ModelSpec(name="fake", summary="f", build=lambda asked: ScriptedModel(says[asked.id]))]


def _judges(prompt: str) -> str:
    """Reply with two facts, or with a label that depends on the length of the prompt."""
    last = prompt.rpartition("\n\n")[2]
    if last.startswith("Text:"):
        return "\n- One thing is so.\n- Another follows.\n\n"
    labels = (
        ("consistent", "inconsistent", "unrelated") if last.startswith("Paragraph:") else ("support", "not-support")
    )
    return f" So it is.\nLabel: {labels[len(last) % len(labels)]}\n\n"


@pytest.fixture(scope="module")
def catalog() -> tuple[Catalog, Plugin]:
    plugins, plugin = discover(), Plugin()
    plugins.register(plugin, "test")
    return read_catalog(plugins), plugin


@pytest.fixture(scope="module")
def runs(catalog: tuple[Catalog, Plugin], tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """Evaluate and judge a small run of each embedded benchmark. A model also judges ``recoe-atlas``."""
    offered, plugin = catalog
    made = {}
    for name in ("atlas", *dict.fromkeys(OF.values())):
        request = EvalRequest(
            editor="told",
            dataset="atlas" if name == "edits" else name,
            model=ModelChoice(reference="fake:knows"),
            options={"atlas": {"view": "edits"}} if name == "edits" else LM_EVAL if name == "atlas" else {},
            plan=Plan(size=3, limit=CASES),
            metrics=("drift", "cost", "belief", "lm-eval") if name == "atlas" else (),
        )
        job = prepare(request, offered, SilentProgress())
        plugin.learn(job.cases)
        made[name] = RunFolder.create(tmp_path_factory.mktemp("runs") / name, job.spec)
        evaluate(job, made[name])
    asking = JudgeModel(model=ModelChoice(reference="fake:judges"), progress=SilentProgress())
    own = offered.spec("dataset", "recoe-atlas").judge  # type: ignore[attr-defined]
    judge_folder(made["recoe-atlas"], offered, name="llm", asking=asking)
    judge_folder(made["recoe-atlas"], offered, name=own)
    return made


def of(metric: str) -> tuple[str, str]:
    """Return the run of a metric and its judge."""
    return OF.get(metric, "atlas"), "llm" if metric in BY_LLM else ""


@pytest.fixture(scope="module")
def elsewhere(runs: dict[str, RunFolder], catalog: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the SHA-256 of the scores that another process with another hash seed computes."""
    del catalog
    wanted = {}
    for metric in METRICS:
        name, by = of(metric)
        wanted[metric] = (str(runs[name].path), ["--judge", by] if by else [])
    told = tmp_path_factory.mktemp("elsewhere") / "found.json"
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, json.dumps(wanted), str(told)],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(told.read_text())
    return found


@pytest.mark.parametrize("metric", METRICS)
def test_deleted_scores_are_computed_again_byte_for_byte(
    metric: str, runs: dict[str, RunFolder], catalog: tuple[Catalog, Plugin], elsewhere: dict[str, str]
) -> None:
    name, by = of(metric)
    folder, offered = runs[name], catalog[0]
    scores = score_folder(folder, offered, metrics=(metric,), judge=by)
    assert any(one.n and one.phase == "after" for one in scores), "the run says nothing to this metric"
    first = (folder.path / SCORES).read_bytes()
    for file in (SCORES, SEAL):
        (folder.path / file).unlink()
    score_folder(folder, offered, metrics=(metric,), judge=by)
    assert (folder.path / SCORES).read_bytes() == first
    assert elsewhere[metric] == hashlib.sha256(first).hexdigest()
