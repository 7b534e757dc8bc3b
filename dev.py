"""Set up the virtual environment ``.venv`` and run one job in it. Needs only Python and pip.

python3 dev.py demo    install ke and its plugins, run the demonstration, print its table
python3 dev.py test    run the checks of every change: lint, types, unit tests (tox -e lint,type,unit)
python3 dev.py setup   install ke, its plugins (editable) and the tools, and nothing else

Further arguments go to the command that is run: ``python3 dev.py demo --cases 10``.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
INSTALLED = ENVIRONMENT / "installed.sha256"
"""Holds the digest of the files that say what to install, once that is installed."""


def main(words: list[str]) -> int:
    """Run the job that the first word names; return its exit status."""
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
    """Install everything, then run ``ke demo``."""
    return setup([]) or run(str(BIN / "ke"), "demo", *words)


def test(words: list[str]) -> int:
    """Install everything, then run tox: the environments that its configuration lists."""
    return setup([]) or run(str(BIN / "python"), "-m", "tox", *words)


def setup(_words: list[str]) -> int:
    """Install the distributions and the tools, unless nothing has changed since the last time.

    The build backend comes first, so that pip makes no build environment for each distribution.
    """
    wanted = digest()
    if INSTALLED.exists() and INSTALLED.read_text(encoding="utf-8") == wanted:
        return 0
    status = pip("-r", "requirements-dev.txt") or pip("--no-build-isolation", "-r", "requirements.txt")
    if not status:
        INSTALLED.write_text(wanted, encoding="utf-8")
    return status


def digest() -> str:
    """Return the digest of the files that say what to install."""
    patterns = ["requirements*.txt", "constraints.txt", "core/pyproject.toml", "bundle/pyproject.toml"]
    patterns += ["toolkits/*/pyproject.toml", "plugins/*/*/pyproject.toml"]
    found = hashlib.sha256(sys.version.encode())
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        found.update(path.read_bytes())
    return found.hexdigest()


def pip(*words: str) -> int:
    """Run ``pip install`` within the constraints. Python compiles a module when it is first imported."""
    if not (BIN / "python").exists() and not (BIN / "python.exe").exists():
        print(f"making a virtual environment in {ENVIRONMENT.name}", flush=True)
        venv.create(ENVIRONMENT, with_pip=True)
    print(f"installing {words[-1]}", flush=True)
    options = ("--quiet", "--no-compile", "-c", "constraints.txt")
    return run(str(BIN / "python"), "-m", "pip", "install", *options, *words)


def run(*command: str) -> int:
    """Run a command; return its exit status."""
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
