"""Generate one plugin from each template and install, lint, test and run it.

The script works in a temporary folder, in an environment on top of this one that already has torch. It is part of
``tox``; ``tox -e templates`` runs it where ke-core is the only installed distribution of this repository.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NEW = {
    "memory": ("editor", "--kind", "memory"),
    "weight": ("editor", "--kind", "weight"),
    "adaptor": ("editor", "--kind", "adaptor"),
    "dataset": ("dataset",),
    "metric": ("metric",),
    "judge": ("judge",),
}
TINY = "from ke_plugin_hf.testing import saved, tiny_model; from pathlib import Path; saved(tiny_model(), Path('tiny'))"


def main() -> int:
    """Check all templates; stop at the first failure and return its exit status."""
    with tempfile.TemporaryDirectory() as work:
        try:
            go(Path(work), {what: f"made-{what}" for what in NEW})
        except subprocess.CalledProcessError as failed:
            print(f"failed: {' '.join(map(str, failed.cmd[1:]))}", file=sys.stderr)
            return 1
    return 0


def go(work: Path, names: dict[str, str]) -> None:
    """Do an author's steps for each plugin, then for all of them together. Raises CalledProcessError."""
    python = layered(work / "environment")
    folders = [work / f"ke-plugin-{name}" for name in names.values()]
    for what, words in NEW.items():
        run(python, "-m", "ke_core", "new", words[0], names[what], *words[1:], at=work)
    pip = ("-I", "-m", "pip", "--python", python, "install", "--quiet", "--no-build-isolation", "--no-deps")
    run(sys.executable, *pip, *map(str, folders), at=work)
    for folder in folders:
        for tool in (["ruff", "format", "--check", "."], ["ruff", "check", "."], ["mypy", "--cache-dir", "../types"]):
            run(sys.executable, "-m", *tool, at=folder)
    with ThreadPoolExecutor(2) as pool:  # most of the time goes here
        list(pool.map(lambda folder: run(python, "-m", "pytest", "-q", at=folder), folders))
    run(python, "-c", TINY, at=work)
    editors = [word for kind in ("memory", "weight", "adaptor") for word in ("--editor", names[kind])]
    editors += ["-o", f"{names['memory']}.encoder=./tiny"]
    others = [word for what in ("dataset", "metric", "judge") for word in (f"--{what}", names[what])]
    run(python, "-m", "ke_core", "eval", *editors, *others, "--model", "./tiny", "--out", "runs", at=work)
    if len(list(work.glob("runs/*/scores.json"))) != 3:
        raise SystemExit("ke eval left no scores")


def layered(place: Path) -> str:
    """Return the Python of a new environment on top of this one."""
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    (inner,) = place.glob("lib/python*/site-packages")
    (inner / "below.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return str(python)


def run(*words: str, at: Path) -> None:
    """Run that program with ``words`` in that folder. Raises CalledProcessError."""
    done = subprocess.run(words, cwd=at, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print("$ python", *words[1:], f"\n{done.stdout}", flush=True)
    done.check_returncode()


if __name__ == "__main__":
    raise SystemExit(main())
