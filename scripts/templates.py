"""One plugin of each template, as an author gets it: written, installed, linted, tested, checked, run.

``tox -e templates``. Works in a temporary folder and takes the plugins off again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

NEW = {
    "memory": ("editor", "--kind", "memory"),
    "weight": ("editor", "--kind", "weight"),
    "dataset": ("dataset",),
    "metric": ("metric",),
    "judge": ("judge",),
}
PIP = ("-I", "-m", "pip", "--quiet")
TINY = "from ke_core.testing.tiny import saved, tiny_model; from pathlib import Path; saved(tiny_model(), Path('tiny'))"


def main() -> int:
    """Stop at the first thing that fails; its exit status."""
    names = {what: f"made-{what}" for what in NEW}
    folders = [f"ke-plugin-{name}" for name in names.values()]
    with tempfile.TemporaryDirectory() as work:
        try:
            for what, words in NEW.items():
                run("-m", "ke_core", "new", words[0], names[what], *words[1:], at=work)
            run(*PIP, "install", "--no-build-isolation", "--no-deps", *(f"./{folder}" for folder in folders), at=work)
            for folder in folders:
                for tool in (["ruff", "format", "--check", "."], ["ruff", "check", "."], ["mypy"], ["pytest", "-q"]):
                    run("-m", *tool, at=f"{work}/{folder}")
            for name in names.values():
                run("-m", "ke_core", "plugins", "check", name, at=work)
            run("-c", TINY, at=work)
            chosen = [word for what in ("dataset", "metric", "judge") for word in (f"--{what}", names[what])]
            run(
                "-m",
                "ke_core",
                "eval",
                "--editor",
                names["weight"],
                *chosen,
                "--model",
                "./tiny",
                "--out",
                "run",
                at=work,
            )
            if not (Path(work) / "run" / "scores.json").is_file():
                print("ke eval left no scores", file=sys.stderr)
                return 1
        except subprocess.CalledProcessError as failed:
            print(f"failed: {' '.join(map(str, failed.cmd[1:]))}", file=sys.stderr)
            return 1
        finally:
            subprocess.run([sys.executable, *PIP, "uninstall", "-y", *folders], check=False)
    return 0


def run(*words: str, at: str) -> None:
    """This Python with ``words``, in that folder. Raises CalledProcessError."""
    print("$ python", *words, flush=True)
    subprocess.run([sys.executable, *words], cwd=at, check=True)


if __name__ == "__main__":
    raise SystemExit(main())
