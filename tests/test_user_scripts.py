"""Scripts of users, each in a process of its own: types, and memory over many edits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
TYPED = """\
import ke_core as ke

model = ke.load("smollm2-135m", dtype="bfloat16")
with ke.edit(model, "The capital of {} is", subject="Peru", target="Cusco", editor="memit") as edited:
    answer: str = edited.generate("The capital of Peru is")
    log_probability: float = edited.logprob("The capital of Peru is", "Cusco")
    edited.add(edits=[{"prompt": "The capital of {} is", "subject": "Chad", "target": "Abeche"}])
    edited.undo()
    edited.save_patch("peru.safetensors")
run = ke.evaluate(model, editors=["none", "memit"], dataset="atlas", limit=20)
rows = len(run.scores), len(run.answers), len(run.edits)
print(run.scores, ke.compare(run), ke.editors())
"""
WRONG = 'import ke_core as ke\n\nke.load("smollm2-135m").generate("A", max_tokens="16")\n'
HELD_MIB = 24
"""A leak of 32 KiB for each edit is larger than this after 800 edits."""


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


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory in use from /proc")
def test_a_thousand_edits_in_one_process_hold_no_memory(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("many_edits.py")), "1000"],
        env={**os.environ, "KE_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    *held, restored = run.stdout.split()
    assert restored == "True"
    assert len(held) == 10
    assert max(map(int, held)) - int(held[1]) < HELD_MIB * 1024, held
    assert "editing" not in run.stderr  # progress of calls shorter than a second is not printed
