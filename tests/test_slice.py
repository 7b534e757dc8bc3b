"""Several plugins together, on real data and the real model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ke_core.app import installed_catalog
from ke_core.plugin import Entity, Gold, Item, PassthroughModel, Query, Verdict
from ke_core.plugins.catalog import Catalog
from ke_core.plugins.options import configure
from ke_core.results.folder import RunFolder
from ke_core.runner.evaluate import evaluate, prepare
from ke_core.runner.run import EvalRequest
from ke_core.runner.session import ModelChoice
from ke_core.spec.records import Batch, Replied
from ke_core.spec.runspec import Plan
from ke_testing.examples import question
from ke_testing.fakes import ScriptedModel, SilentProgress, make_session

pytestmark = pytest.mark.integration

OURS = ("alias", "atlas", "mello", "memit", "mquake", "multi-hop", "none", "oracle", "parrot")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return installed_catalog()


def finished(catalog: Catalog, folder: Path, data: Path, editor: str, plan: Plan) -> tuple[RunFolder, dict[str, float]]:
    """Return the run and its multi-hop accuracy times n by slice ("" for all)."""
    request = EvalRequest(
        editor=editor, dataset="mquake-cf-3k", model=ModelChoice(reference="none"), plan=plan, data_dir=str(data)
    )
    job = prepare(request, catalog, SilentProgress())
    record = RunFolder.create(folder, job.spec)
    scores = evaluate(job, record).scores
    right = {
        score.tags.get("hops", ""): round((score.value or 0) * score.n)
        for score in scores
        if score.aspect == "multi-hop" and score.phase == "after" and set(score.tags) <= {"hops"}
    }
    return record, right


def test_parrot_scores_exactly_1872_of_3000_at_k_1(catalog: Catalog, tmp_path: Path, ke_data_dir: Path) -> None:
    _record, right = finished(catalog, tmp_path / "run", ke_data_dir, "parrot", Plan(size=1))
    assert right == {"": 1872, "2": 787, "3": 568, "4": 517}


def test_oracle_scores_3000_of_3000_in_30_groups_of_100(catalog: Catalog, tmp_path: Path, ke_data_dir: Path) -> None:
    record, right = finished(catalog, tmp_path / "run", ke_data_dir, "oracle", Plan(size=100))
    assert right == {"": 3000, "2": 1000, "3": 1000, "4": 1000}
    batches = [line for line in record.read() if isinstance(line, Batch)]
    assert [len(batch.cases) for batch in batches] == [100] * 30
    answered = Counter(line.case for line in record.read() if isinstance(line, Replied) and line.phase == "after")
    assert set(answered.values()) == {1}
    assert len(answered) == 3000


def test_answers_are_generated_without_teacher_forcing(catalog: Catalog, tmp_path: Path) -> None:
    """With teacher forcing, this model would get two of three tokens right. Its own text differs."""
    judge_spec = catalog.spec("judge", "alias")
    gold = Gold(entities=(Entity(label="New York City"),))
    model = ScriptedModel([" Old York City"])
    ask = question("Where is Wall Street?")
    (reply,) = PassthroughModel(make_session(model, root=tmp_path)).answer([ask])
    item = Item(query=Query(id="q", texts=ask.texts, gold=gold), reply=reply)
    assert judge_spec.build(configure(judge_spec)).judge(None, [item])[0].verdict is Verdict.WRONG
    assert all(name not in prompt for prompt in model.prompts for name in gold.entities[0].names)


def ke(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ke_core", *words],
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_eval_without_a_dataset_names_one_to_install() -> None:
    others = ",".join(f"ke-plugin-{name}" for name in OURS if name != "memit")
    done = ke("eval", "--editor", "memit", KE_DISABLE_PLUGINS=others)
    assert done.returncode == 2
    assert "pip install ke-plugin-atlas" in done.stderr
    assert "Traceback" not in done.stderr
    named = ke("eval", "--editor", "memit", "--dataset", "mquake-cf-3k", KE_DISABLE_PLUGINS=others)
    assert named.returncode == 2
    assert "pip install ke-plugin-mquake" in named.stderr


def test_datasets_stats_prints_the_published_counts(ke_data_dir: Path) -> None:
    done = ke("datasets", "stats", "mquake-cf-3k", "--data-dir", str(ke_data_dir))
    assert done.returncode == 0, done.stderr
    numbers = {line.strip().rsplit("  ", 2)[0].strip(): line.split()[-2:] for line in done.stdout.splitlines() if line}
    for what in ("3,000", "6,015", "2,786", "2,785", "513", "487", "356", "334", "310", "224", "246", "262", "268"):
        assert any(what in found for found in numbers.values()), f"{what} is missing in {done.stdout}"


@pytest.mark.model
def test_the_demo_edits_a_real_model(tmp_path: Path) -> None:
    """One case, with a key covariance from few tokens: MEMIT edits, and the answer before the edit differs."""
    done = ke("demo", "--cases", "1", "--out", str(tmp_path), "-o", "memit.tokens=4000")
    assert done.returncode == 0, done.stderr
    scores = {folder.name.split("-atlas-")[0]: _edit_wise(folder) for folder in tmp_path.iterdir()}
    assert scores["oracle"] == scores["memit"] == 1.0
    assert set(scores) == {"memit", "input-aug", "parrot", "oracle"}
    assert done.stdout.startswith("Edit ")
    assert len(done.stdout.splitlines()) <= 26


def _edit_wise(folder: Path) -> float:
    metrics = json.loads((folder / "scores.json").read_text(encoding="utf-8"))["metrics"]
    rows = [row for metric in metrics for row in metric["scores"]]
    return next(r["value"] for r in rows if (r["aspect"], r["phase"], r["tags"]) == ("edit-wise", "after", {}))
