"""One plugin by itself: ``alone.py install plugin-NAME``, then ``alone.py test plugin-NAME`` (what tox runs).

Installs ke-core, the plugin and the plugins of this repository that it declares, nothing else of ours.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(job: str, environment: str) -> int:
    """Install or test the plugin whose tox environment is called ``environment``."""
    name = environment.removeprefix("plugin-")
    folders = {folder.parent.name: folder.parent for folder in ROOT.glob("plugins/*/*/pyproject.toml")}
    if name not in folders:
        print(f"no plugin called {name!r}; there are: {', '.join(sorted(folders))}", file=sys.stderr)
        return 2
    if job == "test":
        return subprocess.run(["pytest", str(folders[name].relative_to(ROOT))], check=False).returncode  # noqa: S607  its own environment's
    ours = [str(ROOT / "core"), *map(str, _with_what_it_needs(name, folders))]
    pip = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--no-build-isolation"]
    return subprocess.run([*pip, *ours], check=False).returncode


def _with_what_it_needs(name: str, folders: dict[str, Path]) -> list[Path]:
    """The plugin's folder and, before it, those of the plugins it depends on."""
    about = tomllib.loads((folders[name] / "pyproject.toml").read_text(encoding="utf-8"))
    needed = [re.split(r"[^\w-]", one)[0] for one in about["project"]["dependencies"]]
    plugins = [one.removeprefix("ke-plugin-") for one in needed if one.startswith("ke-plugin-")]
    found = [folder for plugin in plugins for folder in _with_what_it_needs(plugin, folders)]
    return [*dict.fromkeys(found), folders[name]]


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:3]))
