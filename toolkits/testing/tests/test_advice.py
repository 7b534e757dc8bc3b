"""Every check has advice, and all advice belongs to a check."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest

from ke_testing.advice import advice, advice_for, readable_name

MODULES = (
    *(f"ke_testing.{name}" for name in ("contract", "dataset", "editor", "judge", "metric", "pitfalls")),
    *(f"ke_weights.testing.{name}" for name in ("adaptor", "locating", "opening", "weights")),
)
TESTS = {
    name
    for module in MODULES
    for found in vars(importlib.import_module(module)).values()
    if isinstance(found, type) and found.__module__ in MODULES
    for name in vars(found)
    if name.startswith("test_")
}


def test_checks_and_advice_match():
    assert set(advice()) == TESTS


@pytest.mark.parametrize("name", sorted(TESTS))
def test_advice_is_one_line(name):
    said = advice_for(name)
    assert len(said.splitlines()) == 1
    assert not said.endswith(".")
    assert not re.search(r"test_", said)


def test_readable_name_of_a_check():
    assert readable_name("test_no_requests_no_replies") == "no requests no replies"
    assert readable_name("test_it_leaks[float32-exception]") == "it leaks (float32-exception)"


def test_pytest_with_the_fixtures_does_not_import_torch(tmp_path):
    (tmp_path / "test_one.py").write_text(
        "import sys\ndef test_one(ke_cache_dir):\n"
        "    assert not {'torch', 'transformers', 'numpy', 'ke_core.plugin'} & set(sys.modules)\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
        "test_one.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
