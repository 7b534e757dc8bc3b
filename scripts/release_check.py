"""Build every distribution as for publication, inspect it, install it separately, and test it from its wheel.

``tox -e release-check`` checks all of them, ``tox -e release-check -- ke-plugin-memit ke-core`` only these. ``prepare``
installs their third-party dependencies, but no distribution of this repository. For each distribution the script builds
an sdist and a wheel, checks the wheel's metadata, and looks for the license, the typing marker and, in the sdist, the
tests. Then it creates an environment on top of this one, which has torch but no distribution of this repository, and
installs the wheels that the distribution and its tests declare. There it runs ``pip check`` and the tests.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WANTED = (
    "Name",
    "Version",
    "Summary",
    "Author",
    "Classifier",
    "License-Expression",
    "License-File",
    "Requires-Python",
    "Description-Content-Type",
)
IN_SDIST = ("/LICENSE", "/README.md", "/pyproject.toml")


def folders() -> dict[str, Path]:
    """Return the folder of every distribution of this repository, by its name."""
    patterns = ("core", "bundle", "toolkits/*", "plugins/*/*")
    found = [path.parent for pattern in patterns for path in sorted(ROOT.glob(f"{pattern}/pyproject.toml"))]
    return {str(project(folder)["name"]): folder for folder in found}


def project(folder: Path) -> dict[str, Any]:
    """Return the ``[project]`` table of a distribution."""
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def main(names: list[str]) -> int:
    """Check the named distributions, or all; return 1 if anything is wrong."""
    known = folders()
    if names == ["prepare"]:
        wanted = {one for folder in known.values() for one in requirements(folder) if _name(one) not in known}
        run("-m", "pip", "install", "--quiet", *sorted(wanted), at=ROOT)
        return 0
    if here := [one for one in known if any(_name(one) == _name(found.name) for found in distributions())]:
        print(f"{here[0]} is installed here: tox -e release-check has an environment without ours", file=sys.stderr)
        return 2
    for name in names:
        if name not in known:
            print(f"no distribution called {name!r}; there are: {', '.join(known)}", file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory() as work:
        built = {name: build(folder, Path(work) / "dist" / name) for name, folder in known.items()}
        wheels = {name: wheel for name, (wheel, _sdist) in built.items()}
        wrong = {
            name: [*inspect(known[name], *built[name]), *try_alone(known, wheels, name, Path(work))]
            for name in names or known
        }
    for name, found in wrong.items():
        print(f"{name}: {'; '.join(found) or 'ready to publish'}")
    return 1 if any(wrong.values()) else 0


def build(folder: Path, out: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist. Raises CalledProcessError."""
    run("-m", "hatchling", "build", "-d", str(out), at=folder)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


def inspect(folder: Path, wheel: Path, sdist: Path) -> Iterator[str]:
    """Yield what is missing in the distributions. Those without code need no typing marker and no tests."""
    has_code = (folder / "src").is_dir()
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
        text = next(archive.read(file).decode() for file in inside if file.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(text)
    yield from (f"no {field} in its metadata" for field in WANTED if not metadata.get(field))
    parts = ("licenses/LICENSE", *(("py.typed",) if has_code else ()))
    yield from (f"no {part} in its wheel" for part in parts if not any(part in file for file in inside))
    with tarfile.open(sdist) as packed:
        inside = packed.getnames()
    parts = (*IN_SDIST, *(("/tests/", "py.typed") if has_code else ()))
    yield from (f"no {part} in its sdist" for part in parts if not any(part in file for file in inside))


def try_alone(known: dict[str, Path], wheels: dict[str, Path], name: str, work: Path) -> Iterator[str]:
    """Yield the failures in a separate environment."""
    try:
        test_alone(known, wheels, name, work)
    except subprocess.CalledProcessError as error:
        yield f"{' '.join(map(str, error.cmd[1:4]))} ... failed"


def requirements(folder: Path) -> list[str]:
    """Return the dependencies of a distribution, and those of its extras."""
    table = project(folder)
    extras = table.get("optional-dependencies", {})
    return [one for group in (table["dependencies"], *extras.values()) for one in group]


def test_alone(known: dict[str, Path], wheels: dict[str, Path], name: str, work: Path) -> None:
    """Run its tests with its wheel and the wheels that it and its tests declare. Raises CalledProcessError."""
    place = work / "alone" / name
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    (inner,) = place.glob("lib/python*/site-packages")
    (inner / "base.pth").write_text(sysconfig.get_path("purelib") + "\n")
    ours = [str(wheels[one]) for one in with_dependencies(known, name, test=True)]
    run("-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", *ours, at=ROOT)
    run("-m", "pip", "--python", str(python), "check", at=ROOT)
    tests = known[name] / "tests"
    if tests.is_dir():
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests.relative_to(ROOT))]
        subprocess.run(command, cwd=ROOT, check=True)


def with_dependencies(known: dict[str, Path], name: str, *, test: bool = False) -> list[str]:
    """Return it and our distributions that it depends on, each once. ``test``: those of its extra ``test`` too."""
    table = project(known[name])
    wanted = [*table["dependencies"], *(table.get("optional-dependencies", {}).get("test", ()) if test else ())]
    needed = [found for found in map(_name, wanted) if found in known and found != name]
    return list(dict.fromkeys([*(one for need in needed for one in with_dependencies(known, need)), name]))


def run(*words: str, at: Path) -> None:
    """Run this Python with ``words`` in the folder ``at``. Raises CalledProcessError."""
    subprocess.run([sys.executable, *words], cwd=at, check=True, stdout=subprocess.DEVNULL)


def _name(requirement: str) -> str:
    """Return the name in a requirement, or of a distribution, as the index writes it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement.strip())[0]).lower()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
