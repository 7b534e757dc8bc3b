"""Set up the virtual environment ``.venv`` and run one job in it. Needs only Python and pip.

python3 dev.py demo    install ke and its plugins, run the demonstration, print its table
python3 dev.py test    run the checks of every change: lint, types, unit tests (tox -e lint,type,unit)
python3 dev.py setup   install ke, its plugins (editable) and the tools, and nothing else

Further arguments go to the command that is run: ``python3 dev.py demo --cases 10``.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
INSTALLED = ENVIRONMENT / "installed.sha256"
"""Holds the digest of the files that say what to install, once that is installed."""
PIP_SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
    "cert": "SSL_CERT_FILE",
}
"""Settings of pip that uv does not read, and the environment variables with which uv reads them."""


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
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without bytecode, each process would compile torch again
    status = jobs[words[0]](words[1:])
    if words[0] == "setup" and not status:
        activate = r".venv\Scripts\activate" if os.name == "nt" else ". .venv/bin/activate"
        print(f"done; activate the environment with: {activate}")
    return status


def demo(words: list[str]) -> int:
    """Install everything, then run ``ke demo``."""
    return setup([]) or run(str(BIN / "ke"), "demo", *words)


def test(words: list[str]) -> int:
    """Install everything, then run tox: the environments that its configuration lists."""
    return setup([]) or run(str(BIN / "python"), "-m", "tox", *words)


def setup(_words: list[str]) -> int:
    """Install the distributions and the tools, unless nothing has changed since the last time.

    The build backend comes first, so that no build environment is made for each distribution. uv installs in a quarter
    of pip's time; pip installs if uv cannot.
    """
    wanted = digest()
    if INSTALLED.exists() and INSTALLED.read_text(encoding="utf-8") == wanted:
        return 0
    if not PYTHON.exists():
        print(f"making a virtual environment in {ENVIRONMENT.name}", flush=True)
        venv.create(ENVIRONMENT, with_pip=True)
    status = install_with_uv() and install(["pip", "install", "--no-compile"])
    if not status:
        INSTALLED.write_text(wanted, encoding="utf-8")
    return status


def install(installer: list[str], settings: Mapping[str, str] = MappingProxyType({})) -> int:
    """Install the tools, then the distributions, within the constraints.

    ``installer`` is a module and its arguments, ``settings`` are further environment variables.
    """
    print(f"installing with {installer[0]}: a few minutes without output, because PyTorch is large", flush=True)
    command = [str(PYTHON), "-m", *installer, "--quiet", "-c", "constraints.txt"]
    environment = dict(settings) | os.environ
    return run(*command, "-r", "requirements-dev.txt", environment=environment) or run(
        *command, "--no-build-isolation", "-r", "requirements.txt", environment=environment
    )


def install_with_uv() -> int:
    """Install uv, then everything with it, from the package indexes that pip is configured to use."""
    return run(str(PYTHON), "-m", "pip", "install", "--quiet", "uv") or install(
        ["uv", "pip", "install", "--python", str(PYTHON)], uv_settings()
    )


def uv_settings() -> dict[str, str]:
    """Translate pip's configuration into environment variables of uv. As in pip, all indexes are equal."""
    listed = subprocess.run([PYTHON, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False).stdout
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for name, value in re.findall(r"^[^=]*?\.([a-z-]+)=(.+)$", listed, flags=re.MULTILINE):
        if name in PIP_SETTINGS:
            separator = "," if name == "find-links" else " "
            found[PIP_SETTINGS[name]] = separator.join(str(ast.literal_eval(value)).split())
    return found


def digest() -> str:
    """Return the digest of the files that say what to install."""
    patterns = ["requirements*.txt", "constraints.txt", "core/pyproject.toml", "bundle/pyproject.toml"]
    patterns += ["toolkits/*/pyproject.toml", "plugins/*/*/pyproject.toml"]
    found = hashlib.sha256(sys.version.encode())
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        found.update(path.read_bytes())
    return found.hexdigest()


def run(*command: str, environment: Mapping[str, str] | None = None) -> int:
    """Run a command; return its exit status."""
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
