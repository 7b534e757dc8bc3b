"""Set up a virtual environment in ``.venv`` and do one of two things in it, with Python and pip alone.

python3 dev.py demo    install ke and its plugins, run the demonstration, print its table
python3 dev.py test    install tox, run every check and test
python3 dev.py setup   install ke and its plugins for work on them (editable), nothing else

Further words go to the command that is run: ``python3 dev.py demo --cases 10``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")


def main(words: list[str]) -> int:
    """Do what the first word says."""
    if sys.version_info < (3, 11):
        print(f"ke needs Python 3.11 or newer, this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    jobs = {"demo": demo, "test": test, "setup": setup}
    if not words or words[0] not in jobs:
        print(__doc__)
        return 2
    os.chdir(ROOT)
    return jobs[words[0]](words[1:])


def demo(words: list[str]) -> int:
    """Everything editable, then ``ke demo``."""
    return setup([]) or run(str(BIN / "ke"), "demo", *words)


def test(words: list[str]) -> int:
    """tox, then all it runs by default."""
    return pip("tox") or run(str(BIN / "python"), "-m", "tox", *words)


def setup(_words: list[str]) -> int:
    """The build backend first, so that pip need not make a build environment for each of the plugins."""
    return pip("hatchling", "editables") or pip("--no-build-isolation", "-r", "requirements.txt")


def pip(*words: str) -> int:
    """``pip install`` within the constraints."""
    if not (BIN / "python").exists() and not (BIN / "python.exe").exists():
        print(f"making a virtual environment in {ENVIRONMENT.name}", flush=True)
        venv.create(ENVIRONMENT, with_pip=True)
    print(f"installing {' '.join(word for word in words if not word.startswith('-'))}", flush=True)
    return run(str(BIN / "python"), "-m", "pip", "install", "--quiet", "-c", "constraints.txt", *words)


def run(*command: str) -> int:
    """Run a command; its exit status."""
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
