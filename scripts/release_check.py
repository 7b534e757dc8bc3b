"""Every distribution as it would be published: built, looked into, installed alone, and tested from its wheel.

``tox -e release-check`` does all of them, ``tox -e release-check -- ke-plugin-memit ke-core`` these. ``prepare``
installs what others wrote that any of them needs, and none of ours. For each: an sdist and a wheel; metadata in the
wheel; licence, typing marker and, in the sdist, tests; and in an environment of its own, layered over this one (it has
torch and none of ours), that what it declares is there (``pip check``), that it imports nothing else, and its tests.
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
IN_WHEEL = ("licenses/LICENSE", "py.typed")
IN_SDIST = ("/LICENSE", "/README.md", "/pyproject.toml", "/tests/test_", "py.typed")
DECLARED = "tests/test_layout.py::test_third_party_imports_are_declared"


def folders() -> dict[str, Path]:
    """Every distribution of this repository, by name."""
    found = [ROOT / "core", *sorted(path.parent for path in ROOT.glob("plugins/*/*/pyproject.toml"))]
    return {str(about(folder)["name"]): folder for folder in found}


def about(folder: Path) -> dict[str, object]:
    """The ``[project]`` table of a distribution."""
    project: dict[str, object] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def main(names: list[str]) -> int:
    """Check those named, else all; 1 if anything is wrong."""
    known = folders()
    if names == ["prepare"]:
        wanted = {one for folder in known.values() for one in declared(folder) if _name(one) not in known}
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
        built = {name: build(folder, Path(work) / "dist") for name, folder in known.items()}
        wheels = {name: wheel for name, (wheel, _sdist) in built.items()}
        wrong = {name: [*looked_into(*built[name]), *tried(known, wheels, name, Path(work))] for name in names or known}
    for name, found in wrong.items():
        print(f"{name}: {'; '.join(found) or 'fit to be published'}")
    return 1 if any(wrong.values()) else 0


def build(folder: Path, out: Path) -> tuple[Path, Path]:
    """The wheel and the sdist. Raises CalledProcessError."""
    target = out / folder.name
    run("-m", "hatchling", "build", "-d", str(target), at=folder)
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, sdist


def looked_into(wheel: Path, sdist: Path) -> Iterator[str]:
    """What is missing in them."""
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
        text = next(archive.read(file).decode() for file in inside if file.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(text)
    yield from (f"no {field} in its metadata" for field in WANTED if not metadata.get(field))
    yield from (f"no {part} in its wheel" for part in IN_WHEEL if not any(part in file for file in inside))
    with tarfile.open(sdist) as packed:
        inside = packed.getnames()
    yield from (f"no {part} in its sdist" for part in IN_SDIST if not any(part in file for file in inside))


def tried(known: dict[str, Path], wheels: dict[str, Path], name: str, work: Path) -> Iterator[str]:
    """What of it fails in an environment of its own."""
    try:
        test_alone(known, wheels, name, work)
    except subprocess.CalledProcessError as error:
        yield f"{' '.join(map(str, error.cmd[1:4]))} ... failed"


def declared(folder: Path) -> list[str]:
    """Its dependencies, and those of its extras."""
    project = about(folder)
    extras = project.get("optional-dependencies", {})
    assert isinstance(extras, dict)
    return [one for group in (project["dependencies"], *extras.values()) if isinstance(group, list) for one in group]


def test_alone(known: dict[str, Path], wheels: dict[str, Path], name: str, work: Path) -> None:
    """Its tests, with its wheel, ke-core's and those it declares. Raises CalledProcessError."""
    place = work / "alone" / name
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    (inner,) = place.glob("lib/python*/site-packages")
    (inner / "base.pth").write_text(sysconfig.get_path("purelib") + "\n")
    ours = [str(wheels[one]) for one in with_what_it_needs(known, name)]
    run("-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", *ours, at=ROOT)
    run("-m", "pip", "--python", str(python), "check", at=ROOT)
    folder = known[name].relative_to(ROOT)
    tests = [f"{folder}/tests", f"{DECLARED}[{folder}]"]
    subprocess.run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=ROOT, check=True)


def with_what_it_needs(known: dict[str, Path], name: str) -> list[str]:
    """It and those of ours that it needs, each once."""
    dependencies = about(known[name])["dependencies"]
    assert isinstance(dependencies, list)
    needed = [found for found in map(_name, dependencies) if found in known]
    return list(dict.fromkeys([*(one for need in needed for one in with_what_it_needs(known, need)), name]))


def run(*words: str, at: Path) -> None:
    """This Python with ``words``, in that folder. Raises CalledProcessError."""
    subprocess.run([sys.executable, *words], cwd=at, check=True, stdout=subprocess.DEVNULL)


def _name(requirement: str) -> str:
    """Of a requirement, or of a distribution, as the index writes it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement.strip())[0]).lower()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
