"""Compute the digest of the source files of a component.

A version number does not change while a plugin is being developed, so a run records the code as well. The files on disk
are read, wherever the package is imported from: an editable installation and a copy of it have the same digest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ke_core.plugins.manager import Installed
from ke_core.spec.codec import digest

LENGTH = 16
"""Hex digits: enough to notice a change, few enough for every judged line."""
COMPILED = (".pyc", ".pyo")


def code_digest(plugin: Installed, others: Iterable[Installed]) -> str:
    """Return a digest of the package of ``plugin``, and of the packages in ``others`` that its distribution requires.

    Empty if the package has no files, for example for a plugin registered by a test.
    """
    known: dict[str, Installed] = {canonicalize_name(other.distribution): other for other in others}
    found: dict[str, str] = {}
    waiting = [plugin]
    while waiting:
        one = waiting.pop()
        if one.module not in found:
            found[one.module] = _package_digest(one.module)
            waiting += [known[name] for name in map(_required, one.requires) if name in known]
    return digest(sorted(found.items()))[:LENGTH] if any(found.values()) else ""


@cache
def _package_digest(module: str) -> str:
    root = _root(module)
    if root is None:
        return ""
    return digest(
        [[path.relative_to(root.parent).as_posix(), sha256(path.read_bytes()).hexdigest()] for path in _files(root)]
    )


def _root(module: str) -> Path | None:
    """Return the folder of the top-level package of ``module``, or the file of a module without a package.

    A namespace package may be shared with other distributions, so the package inside it counts.
    """
    parts = module.partition(":")[0].split(".")
    for end in range(1, len(parts) + 1):
        file = getattr(sys.modules.get(".".join(parts[:end])), "__file__", None)
        if file and Path(file).is_file():
            path = Path(file)
            return path.parent if path.stem == "__init__" else path
    return None


def _files(root: Path) -> Iterator[Path]:
    """Return the files of the package, sorted, without compiled and hidden ones."""
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root).parts
        if path.is_file() and path.suffix not in COMPILED and not any(part.startswith(".") for part in inner):
            yield path


def _required(requirement: str) -> str:
    """Return the normalized name of a requirement's distribution. Empty if the text is not a requirement."""
    try:
        return canonicalize_name(Requirement(requirement).name)
    except InvalidRequirement:
        return ""
