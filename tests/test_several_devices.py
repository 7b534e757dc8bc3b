"""Weight editors on a model on two devices: no operation mixes tensors of both."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).with_name("several_devices.py")


@pytest.mark.parametrize(
    ("editor", "where", "layers"),
    [
        ("memit", "layers=1,2", {"1", "2"}),
        ("alphaedit", "layers=1,2", {"1", "2"}),
        ("emmet", "layer=2", {"2"}),
        ("rome", "layer=2", {"2"}),
    ],
)
def test_an_edit_across_two_devices_is_applied_and_undone(editor: str, where: str, layers: set[str]) -> None:
    command = [sys.executable, str(SCRIPT), editor, where, "steps=1", "tokens=2000"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert set(ast.literal_eval(ended.stdout)) == layers
