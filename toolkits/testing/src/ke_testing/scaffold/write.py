"""``ke new``: fill in a template and write it atomically.

::

    plan = TemplateOptions(kind="editor", name="swap", style="memory", license="MIT")
    folder = write(plan, Path.cwd(), catalog)      # ./ke-plugin-swap, whose tests pass
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import distribution, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from tempfile import mkdtemp

from attrs import frozen

from ke_core.app import Catalog, directory_entries
from ke_core.plugin import NAME_PATTERN, BadConfig

KINDS = ("editor", "dataset", "metric", "judge")
STYLES = ("memory", "weight", "adaptor")
LICENSES = ("Apache-2.0", "MIT", "BSD-3-Clause")
LONGEST = 40
"""Maximum characters of a name, so that lines with it stay short."""
PREFIX = "ke-plugin-"
DEPENDENCIES = {
    "dataset": ("ke-benchmarks", "ke-plugin-alias", "ke-plugin-classic"),  # the spec names their judge and metric
    "editor-memory": ("ke-memory",),
    "editor-weight": ("ke-weights",),
    "editor-adaptor": ("ke-weights",),
}


@frozen(kw_only=True)
class TemplateOptions:
    """The options of ``ke new``. ``style``: the kind of an editor."""

    kind: str
    name: str
    style: str = "memory"
    license: str = LICENSES[0]

    @property
    def template(self) -> str:
        """The folder of the template."""
        return f"editor-{self.style}" if self.kind == "editor" else self.kind

    @property
    def distribution(self) -> str:
        """The name of the distribution and of its entry point."""
        return PREFIX + self.name

    @property
    def module(self) -> str:
        """The name of the import package."""
        return self.distribution.replace("-", "_")

    @property
    def stem(self) -> str:
        """The prefix of class names."""
        joined = "".join(part.capitalize() for part in self.name.split("-"))
        return f"Ke{joined}" if joined[0].isdigit() else joined

    @property
    def _opens_models(self) -> bool:
        return "ke-weights" in DEPENDENCIES.get(self.template, ())

    def dependencies(self, versions: str) -> list[str]:
        """Return the dependencies of the template besides the core."""
        needed = [f"{distribution}{versions}" for distribution in DEPENDENCIES.get(self.template, ())]
        return [*needed, "torch>=2.6"] if self._opens_models else needed

    def words(self) -> dict[str, str]:
        """Return the values of the template's variables."""
        major, minor = version("ke-core").split(".")[:2]
        versions = f">={major}.{minor},<{major}.{int(minor) + 1}"
        return {
            "name": self.name,
            "kind": self.kind,
            "distribution": self.distribution,
            "module": self.module,
            "stem": self.stem,
            "core": versions,
            "license": self.license,
            "year": str(datetime.now(tz=UTC).year),
            "needs": "".join(f'\n    "{needed}",' for needed in self.dependencies(versions)),
            "testing": "ke-testing[hf]" if self._opens_models else "ke-testing",
        }


def refuse(plan: TemplateOptions, into: Path, catalog: Catalog) -> None:
    """Raise BadConfig for an invalid name, or one that is used by a folder or a component."""
    if not NAME_PATTERN.match(plan.name) or len(plan.name) > LONGEST:
        near = re.sub(r"[^a-z0-9]+", "-", plan.name.lower()).strip("-")[:LONGEST].strip("-")
        raise BadConfig(
            f"invalid plugin name {plan.name!r}: use lower-case letters, digits and single hyphens, {LONGEST} "
            "characters at most",
            hint=f"ke new {plan.kind} {near}" if near else "use a name such as my-method",
        )
    for entry in directory_entries():
        if (entry.kind, entry.name) == (plan.kind, plan.name) or entry.distribution == plan.distribution:
            raise BadConfig(
                f"{entry.kind} {entry.name!r} of {entry.distribution} has that name", hint="choose another name"
            )
    if plan.name in catalog.names(plan.kind):
        owner = catalog.registration(plan.kind, plan.name).plugin
        raise BadConfig(
            f"{plan.kind} {plan.name!r} of {owner.distribution or owner.name} has that name", hint="choose another name"
        )
    if (into / plan.distribution).exists():
        raise BadConfig(f"{into / plan.distribution} already exists", hint="choose another name, or move it")


def write(plan: TemplateOptions, into: Path, catalog: Catalog) -> Path:
    """Write the distribution into a new folder in ``into`` and return the folder. Raises BadConfig (``refuse``)."""
    refuse(plan, into, catalog)
    folder = into / plan.distribution
    draft = Path(mkdtemp(prefix=f".{plan.distribution}-", dir=into))
    try:
        for path, text in contents(plan):
            target = draft / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        draft.chmod(0o755)  # mkdtemp creates a folder with private permissions
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return folder


def contents(plan: TemplateOptions) -> Iterator[tuple[str, str]]:
    """Return the text of every file of the distribution by its path with slashes."""
    words = plan.words()
    here = files("ke_testing.scaffold")
    for template in ("common", plan.template):
        for path, text in _texts(here / "templates" / template):
            place = re.sub(r"^src/", f"src/{plan.module}/", path.removesuffix(".tmpl"))
            yield place, Template(text).substitute(words)
    yield "LICENSE", Template(_license(plan.license)).substitute(words)


def _license(name: str) -> str:
    if name == "Apache-2.0":  # this distribution's own license
        return str(distribution("ke-testing").read_text("licenses/LICENSE"))
    return (files("ke_testing.scaffold") / "licenses" / f"{name}.txt").read_text(encoding="utf-8")


def _texts(folder: Traversable, above: str = "") -> Iterator[tuple[str, str]]:
    for item in sorted(folder.iterdir(), key=lambda one: one.name):
        if item.is_dir():
            yield from _texts(item, f"{above}{item.name}/")
        elif item.name.endswith(".tmpl"):
            yield above + item.name, item.read_text(encoding="utf-8")
