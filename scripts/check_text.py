"""Check what can be measured of the text that users read.

    python scripts/check_text.py

The README has at most 150 lines. The main output of the demo has at most 25 lines of 80 columns. No page, docstring or
message has a word of ``docs/house-words.txt``. ``pytest -m docs`` checks that the code on pages runs
(``tests/test_page_code.py``, ``tests/test_tutorials.py``).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README_LINES, OUTPUT_LINES, COLUMNS = 150, 25, 80


def main() -> int:
    """Print what is too long or worded wrongly. Return 1 if there is anything."""
    problems = [*readme(), *demo(), *house_words()]
    print("\n".join(problems) or "README, demo output and words: ok")
    return 1 if problems else 0


def readme() -> Iterator[str]:
    """Yield a problem if the README is too long."""
    lines = len((ROOT / "README.md").read_text(encoding="utf-8").splitlines())
    if lines > README_LINES:
        yield f"README.md has {lines} lines, more than {README_LINES}"


def demo() -> Iterator[str]:
    """Yield a problem if the report of the demo's recorded runs is too long or too wide."""
    printed = run("ke", "report", "docs/runs/demo").splitlines()
    if not printed:
        yield "ke report docs/runs/demo prints nothing"
    if len(printed) > OUTPUT_LINES:
        yield f"ke report docs/runs/demo prints {len(printed)} lines, more than {OUTPUT_LINES}"
    yield from (f"wider than {COLUMNS} columns: {line}" for line in printed if len(line) > COLUMNS)


def house_words() -> list[str]:
    """Return the lines that codespell finds."""
    return run("codespell", "-D", "-", "-D", "docs/house-words.txt").splitlines()


def run(program: str, *words: str) -> str:
    """Return what a program of this environment prints."""
    command = [str(Path(sys.executable).with_name(program)), *words]
    plain = {**os.environ, "COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
    return subprocess.run(command, cwd=ROOT, env=plain, stdout=subprocess.PIPE, text=True, check=False).stdout


if __name__ == "__main__":
    sys.exit(main())
