"""Scripts of users, each in a process of its own: types, and memory over many edits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
TYPED = """\
from pathlib import Path
from typing import Any

import ke_core as ke


def probability(model: ke.Model | ke.EditedModel) -> float:
    return model.logprob("The capital of Peru is", "Cusco")


def names(table: ke.Table) -> list[str]:
    return [str(row["name"]) for row in table] + table.columns + [str(table[0]), repr(table), str(len(table))]


def edit(model: ke.Model) -> list[Path]:
    with ke.edit(
        model, "The capital of {} is", subject="Peru", target="Cusco", editor="memit", options={"steps": 10}, seed=1,
        trace=True,
    ) as edited:
        answer: str = edited.generate("The capital of Peru is", max_tokens=4, stop=["."])
        answers: list[str] = edited.ask(["What is the capital of Peru?", answer])
        several: list[float] = edited.logprobs("The capital of Peru is", ["Cusco", "Lima"])
        nested: list[list[float]] = edited.logprobs(answers, [["Cusco"], ["Lima"]])
        (added,) = edited.add("The capital of {} is", subject="Chile", target="Arica")
        edited.remove(added.edit.id)
        edited.add(edits=[{"prompt": "The capital of {} is", "subject": "Chad", "target": "Abeche"}])
        edited.undo()
        targets: list[str] = [one.target for one in edited.edits]
        with edited.unedited():
            print(probability(model), probability(edited), several, nested, targets, edited.details, edited.trace)
        frame: Any = edited.report().to_frame()
        print(frame, model.module, model.session(seed=1).seed)
        edited.keep()
        saved = edited.save_patch("peru.safetensors", force=True), edited.save_adapter("adapter")
        return [*saved, edited.save_pretrained(Path("checkpoint"))]


def evaluate(model: ke.Model) -> ke.Evaluation:
    run = ke.evaluate(
        model, editors=["none", "memit"], dataset="atlas", limit=20, edits_per_batch=None, sequential=True,
        eval_every=2, eval_set="all", eval_limit=5, styles=["direct"], judge="alias", metrics=["multi-hop"], out="runs",
        options={"memit": {"layers": [4, 5]}}, data_dir="data", seed=1,
    )
    print(names(run.scores), run.answers, run.edits, ke.compare(run), ke.compare(run, run.paths[0]))
    return ke.read_run("runs")


model = ke.load("smollm2-135m", dtype="bfloat16", device="cpu", revision=None, chat=False)
evaluate(ke.wrap(model.module, None, name="mine"))
evaluate(ke.connect("http://localhost:8000/v1", "mine", timeout=5))
print(edit(model), [names(table) for table in (ke.editors(), ke.datasets(), ke.metrics(), ke.judges(), ke.models())])
"""
WRONG = 'import ke_core as ke\n\nke.load("smollm2-135m").generate("A", max_tokens="16")\n'
EDITS, OBJECTS = 60, 5
"""Edits, and the objects that each may leave. About 2 small tuples are left today."""


def mypy(script: Path) -> subprocess.CompletedProcess[str]:
    cache = f"--cache-dir={script.parent / 'cache'}"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", cache, str(script)]
    return subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=False)


def test_the_types_of_the_api_are_complete_for_users(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(TYPED)
    (tmp_path / "wrong.py").write_text(WRONG)
    right, wrong = mypy(tmp_path / "right.py"), mypy(tmp_path / "wrong.py")
    assert right.returncode == 0, right.stdout
    assert 'incompatible type "str"; expected "int"' in wrong.stdout


def test_importing_ke_and_listing_plugins_load_no_torch() -> None:
    code = "import sys, ke_core as ke; print(len(ke.editors()) > 10, {'torch', 'transformers'} & {*sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "True set()\n"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory in use from /proc")
def test_edits_in_one_process_hold_no_memory(tmp_path: Path) -> None:
    """Counts of objects, because resident memory goes up and down by 40 MiB without a leak."""
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("many_edits.py")), str(EDITS)],
        env={**os.environ, "KE_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    *held, restored = run.stdout.splitlines()
    assert restored == "True"
    second, last = ([int(word) for word in held[at].split()] for at in (1, -1))
    assert last[1:3] == second[1:3], "tensors are kept"
    assert last[0] - second[0] <= 8 * EDITS * OBJECTS // 10, held
    assert "editing" not in run.stderr  # progress of calls shorter than a second is not printed
