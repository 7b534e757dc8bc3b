"""``ke doctor``: check the installation and say how to fix it."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import click

from ke_core.cli.app import App
from ke_core.cli.errors import DONE, FAILED
from ke_core.cli.options import json_option, print_json
from ke_core.plugins.faults import applicable
from ke_core.plugins.manager import DISABLE, Installed, Plugins, disabled_by_environment
from ke_core.results.folder import environment
from ke_core.results.redaction import SECRET
from ke_core.spec.hookspecs import HealthFinding
from ke_core.storage.files import CACHE, DATA, cache_dir

COLORS = {"ok": "green", "note": "yellow", "wrong": "red"}


@click.command("doctor")
@click.option("--base-url", envvar="OPENAI_BASE_URL", default="", metavar="URL", show_envvar=True,
              help="Model server to check. Without it, no server is contacted.")  # fmt: skip
@json_option
@click.pass_obj
def command(app: App, *, base_url: str, as_json: bool) -> int:
    """Check the installation and its settings.

    It checks plugins, versions, devices, memory, caches and folders, and changes nothing. The exit status is 1 if
    something is wrong.

    \b
    Examples:
      ke doctor
      ke doctor --json > doctor.json
    """  # fmt: skip
    from ke_core.cli.console import out  # noqa: PLC0415  rich is for commands that print tables
    from ke_core.results.formatting import count_noun, literal, plain_table  # noqa: PLC0415
    from ke_core.spec.codec import to_json  # noqa: PLC0415  the data model

    _ = app.catalog  # reading it may mark more plugins as broken
    findings = list(examine(app.plugins, base_url))
    wrong = sum(finding.state == "wrong" for finding in findings)
    if as_json:
        print_json({"wrong": wrong, "findings": [to_json(finding) for finding in findings]})
        return FAILED if wrong else DONE
    table, area = plain_table("area", "", "what"), ""
    for finding in findings:
        words = literal(finding.what)
        if finding.advice:
            words.append(f"\nwhat to do: {finding.advice}", style="bold")
        shown = "" if finding.area == area else finding.area
        table.add_row(shown, literal(finding.state, COLORS[finding.state]), words)
        area = finding.area
    found = f"{count_noun(wrong, 'problem')} found" if wrong else "no problems found"
    out().print(table, literal(found, "red" if wrong else "green"), sep="\n")
    return FAILED if wrong else DONE


GIB = 2**30
LITTLE_DISK = 2 * GIB
"""With less free space, the smallest model and its statistics may not fit."""
PRINTED = 80  # maximum characters of a plugin's output
SHOWN = ("KE_", "HF_", "CUDA_", "OMP_", "OPENAI_")
"""Prefixes of environment variables that change what ke does."""


def examine(plugins: Plugins, base_url: str = "") -> Iterator[HealthFinding]:
    """Yield all findings, by area. ``base_url``: a model server to contact, if any."""
    yield from _versions()
    yield from _plugins(plugins.installed)
    yield from _of_plugins(plugins, base_url)
    yield from _caches()
    yield from _folders()
    yield from _settings()


def _versions() -> Iterator[HealthFinding]:
    for name, found in environment().items():
        yield HealthFinding(area="versions", what=f"{name} {found}")
    yield from _unmet_of("ke-core", requires("ke-core") or ())


def _unmet_of(whose: str, declared: Iterable[str]) -> Iterator[HealthFinding]:
    for needed in filter(None, map(applicable, declared)):
        try:
            found = version(needed.name)
        except PackageNotFoundError:
            found = "none"
        if found == "none" or not needed.specifier.contains(found, prereleases=True):
            wanted = f"{needed.name}{needed.specifier}"
            what = f"{whose} needs {wanted}, but {found} is installed"
            yield _wrong("versions", what, f"pip install '{wanted}'")


def _plugins(installed: Mapping[str, Installed]) -> Iterator[HealthFinding]:
    works = [plugin for plugin in installed.values() if not plugin.broken]
    yield HealthFinding(area="plugins", what=f"{len(works)} of {len(installed)} work")
    for plugin in installed.values():
        if plugin.broken:
            place = f" ({plugin.place})" if plugin.place else ""
            what = f"{plugin.name} {plugin.version} is broken: {plugin.broken}{place}"
            step = f": {plugin.step}" if plugin.step else ""
            reinstall = f"pip install --force-reinstall {plugin.distribution or plugin.name}"
            yield _wrong("plugins", what, f"{reinstall}, or tell its author{step}")
            continue
        yield from _unmet_of(plugin.distribution or plugin.name, plugin.requires)
        if plugin.printed:
            said = " ".join(plugin.printed.split())[:PRINTED]
            yield HealthFinding(area="plugins", what=f"{plugin.name} prints while it is loaded: {said}", state="note")
    if left_out := disabled_by_environment():
        yield HealthFinding(area="plugins", what=f"{DISABLE} disables {', '.join(sorted(left_out))}", state="note")


def _of_plugins(plugins: Plugins, base_url: str) -> Iterator[HealthFinding]:
    """Yield the findings of plugins (hook ``ke_doctor``). A check that raises an exception is a finding too."""
    for impl in plugins.implementations("ke_doctor"):
        try:
            found: Any = impl.function(*(base_url for name in impl.argnames if name == "base_url"))
            yield from found
        except Exception as error:  # noqa: BLE001  a plugin may fail in any way
            what = f"{impl.plugin_name} could not be checked: {type(error).__name__}: {' '.join(str(error).split())}"
            yield _wrong("plugins", what, f"reinstall {impl.plugin_name}")


def _caches() -> Iterator[HealthFinding]:
    root = cache_dir()
    yield _writable("caches", root, f"set {CACHE} to a folder that you can write to")
    for part in sorted(root.iterdir()) if _readable(root) else ():
        if part.is_dir():
            yield HealthFinding(area="caches", what=f"{part}: {_size(part) / 1e6:,.1f} MB")


def _folders() -> Iterator[HealthFinding]:
    yield _writable("folders", Path("runs"), "use a folder that you can write to, or --out FOLDER")
    yield _writable("folders", Path(tempfile.gettempdir()), "set TMPDIR to a folder that you can write to")
    own = os.environ.get(DATA)
    if own and not _readable(Path(own).expanduser()):
        yield _wrong("folders", f"{DATA} is {own}, which is not a readable folder", f"correct or unset {DATA}")


def _settings() -> Iterator[HealthFinding]:
    """Yield environment variables. The values of possible secrets are not shown."""
    for name in sorted(name for name in os.environ if name.startswith(SHOWN)):
        value = "is set" if SECRET.search(name) else f"= {re.sub(r'//[^/@]*@', '//', os.environ[name])}"
        yield HealthFinding(area="settings", what=f"{name} {value}")


def _writable(area: str, folder: Path, advice: str) -> HealthFinding:
    """Check that a file can be created in ``folder``, or in its nearest existing parent. The file is deleted."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there):
            free = shutil.disk_usage(there).free
    except OSError as error:
        return _wrong(area, f"{folder} is not writable: {(error.strerror or str(error)).lower()}", advice)
    what = f"{folder} is writable, {free / GIB:.1f} GiB free"
    if free < LITTLE_DISK:
        return HealthFinding(area=area, what=what, state="note", advice="free some space, or use another disk")
    return HealthFinding(area=area, what=what)


def _wrong(area: str, what: str, advice: str) -> HealthFinding:
    return HealthFinding(area=area, what=what, state="wrong", advice=advice)


def _readable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)


def _size(folder: Path) -> int:
    """Return the bytes of the files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
