"""Install or test one distribution separately: ``alone.py install plugin-NAME``, then ``alone.py test plugin-NAME``.

tox runs both. ``install`` installs ke-core, the distribution with its extra ``test``, and the distributions of this
repository that they depend on. ``toolkit-NAME`` names a toolkit.
"""

from __future__ import annotations

import subprocess
import sys

from release_check import ROOT, folders, with_dependencies


def main(job: str, environment: str) -> int:
    """Install or test the distribution whose tox environment is ``environment``; return the exit status."""
    known = folders()
    name = f"ke-{environment}" if environment.startswith("plugin-") else f"ke-{environment.removeprefix('toolkit-')}"
    if name not in known:
        print(f"no distribution called {name!r}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    if job == "test":
        return subprocess.run(["pytest", str(known[name].relative_to(ROOT))], check=False).returncode  # noqa: S607  its own environment's
    ours = [str(known[one]) for one in with_dependencies(known, name, test=True)]
    pip = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--no-build-isolation"]
    return subprocess.run([*pip, *ours], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:3]))
