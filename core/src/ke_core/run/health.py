"""``ke doctor``: what of an installation works, what does not, and what to do about it. Changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from attrs import frozen
from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement

from ke_core.errors import KEError
from ke_core.files import CACHE, DATA, cache_dir
from ke_core.plugins import watch as plugins_watch
from ke_core.plugins.manager import DISABLE, Installed, disabled_by_environment
from ke_core.plugins.watch import Watch, timeout, watched
from ke_core.results.folder import environment
from ke_core.results.redaction import SECRET

GIB = 2**30
LITTLE_MEMORY, LITTLE_DISK = GIB, 2 * GIB
"""Below these the smallest model and its statistics may not fit."""
PRINTED = 80  # characters of what a plugin prints
TIMEOUT = 5.0  # seconds that a server has to answer
SHOWN = ("KE_", "HF_", "CUDA_", "OMP_", "OPENAI_")
"""How environment variables begin that change what ke does."""


@frozen(kw_only=True)
class Finding:
    """One thing that was looked at. ``note``: it works, and may be in the way. ``advice``: what to do."""

    area: str
    what: str
    state: Literal["ok", "note", "wrong"] = "ok"
    advice: str = ""


def examine(installed: Mapping[str, Installed], base_url: str = "") -> Iterator[Finding]:
    """Everything, area by area. ``base_url``: a model server; without one, nothing is contacted."""
    yield from _versions()
    yield from _plugins(installed)
    yield from _devices()
    yield from _caches()
    yield from _folders()
    yield from _settings()
    if base_url:
        yield _server(base_url)


def _versions() -> Iterator[Finding]:
    for name, found in environment().items():
        yield Finding(area="versions", what=f"{name} {found}")
    yield from _unmet_of("ke-core", requires("ke-core") or ())


def _unmet_of(whose: str, declared: Iterable[str]) -> Iterator[Finding]:
    for text in declared:
        try:
            needed = Requirement(text)
            holds = needed.marker is None or needed.marker.evaluate({"extra": ""})
        except (InvalidRequirement, UndefinedEnvironmentName):
            continue  # pip has refused it, or will
        found = _installed(needed.name) if holds else ""
        if holds and not (found and needed.specifier.contains(found, prereleases=True)):
            yield Finding(
                area="versions",
                what=f"{whose} needs {needed.name}{needed.specifier}, and {found or 'none'} is installed",
                state="wrong",
                advice=f"pip install '{needed.name}{needed.specifier}'",
            )


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _plugins(installed: Mapping[str, Installed]) -> Iterator[Finding]:
    works = [plugin for plugin in installed.values() if not plugin.broken]
    yield Finding(area="plugins", what=f"{len(works)} of {len(installed)} can be used")
    for plugin in installed.values():
        if plugin.broken:
            yield Finding(
                area="plugins",
                what=f"{plugin.name} {plugin.version} is broken: {plugin.broken}{_place(plugin)}",
                state="wrong",
                advice=f"pip install --force-reinstall {plugin.distribution or plugin.name}, or tell its author"
                + (f": {plugin.step}" if plugin.step else ""),
            )
            continue
        yield from _unmet_of(plugin.distribution or plugin.name, plugin.requires)
        if plugin.printed:
            said = " ".join(plugin.printed.split())[:PRINTED]
            yield Finding(area="plugins", what=f"{plugin.name} prints while it is loaded: {said}", state="note")
    if left_out := disabled_by_environment():
        yield Finding(area="plugins", what=f"{DISABLE} leaves out {', '.join(sorted(left_out))}", state="note")


def _place(plugin: Installed) -> str:
    """The line of a module that cannot be imported, found by importing it once more."""
    watch = Watch()
    try:
        with watched(watch, timeout()), redirect_stdout(sys.stderr):  # what it prints must not end up in the answer
            import_module(plugin.module.partition(":")[0])
    except BaseException as error:
        if watch.interrupts(error):
            raise
        skipped = ("importlib", __file__, plugins_watch.__file__)
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if not any(part in frame.filename for part in skipped)
        ]
        if isinstance(error, SyntaxError) and error.filename:
            return f" ({error.filename}, line {error.lineno})"
        if frames:
            return f" ({frames[-1].filename}, line {frames[-1].lineno}: {frames[-1].line})"
    return ""


def _devices() -> Iterator[Finding]:
    try:
        from ke_core.models.devices import devices, unused_gpu  # noqa: PLC0415  imports torch
    except Exception as error:  # noqa: BLE001  a torch that cannot be imported fails in many ways
        yield Finding(
            area="device",
            what=f"torch cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}",
            state="wrong",
            advice="pip install --force-reinstall torch",
        )
        return
    for device in devices():
        free, total = device.free or 0, device.total or 0
        memory = f", {free / GIB:.1f} of {total / GIB:.1f} GiB free" if total else ""
        if device.wrong:
            yield Finding(
                area="device",
                what=f"{device.name} ({device.kind}) cannot be used: {device.wrong}",
                state="wrong",
                advice="--device cpu does without; a torch for this device: https://pytorch.org/get-started",
            )
            continue
        little = total > 0 and free < LITTLE_MEMORY
        advice = "end other programs, or take a smaller model or --dtype bfloat16" if little else ""
        what = f"{device.name} ({device.kind}){memory}"
        yield Finding(area="device", what=what, state="note" if little else "ok", advice=advice)
    if why := unused_gpu():
        yield Finding(
            area="device",
            what=f"there is an NVIDIA driver, but torch finds no GPU: {why}",
            state="note",
            advice="https://pytorch.org/get-started names the torch that fits the driver",
        )


def _caches() -> Iterator[Finding]:
    root = cache_dir()
    yield _writable("caches", root, f"set {CACHE} to a folder that you may write to")
    for part in sorted(root.iterdir()) if _readable(root) else ():
        if part.is_dir():
            yield Finding(area="caches", what=f"{part}: {_size(part) / 1e6:,.1f} MB")
    yield from _completions(root / "completions" / "completions.sqlite")
    hub = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface").expanduser() / "hub"
    if hub.is_dir():
        yield Finding(area="caches", what=f"{hub}: {_size(hub) / 1e6:,.1f} MB (models from the hub)")


def _completions(file: Path) -> Iterator[Finding]:
    if not file.is_file():
        return
    try:
        base = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=TIMEOUT)
        try:
            base.execute("SELECT key FROM completion LIMIT 1").fetchall()
        finally:
            base.close()
    except sqlite3.Error as error:
        yield Finding(
            area="caches",
            what=f"{file} cannot be read: {error}",
            state="note",
            advice="a damaged one is started anew by the next run, a locked one is free when the other process ends",
        )


def _folders() -> Iterator[Finding]:
    yield _writable("folders", Path("runs"), "go to a folder that you may write to, or say --out FOLDER")
    yield _writable("folders", Path(tempfile.gettempdir()), "set TMPDIR to a folder that you may write to")
    own = os.environ.get(DATA)
    if own and not _readable(Path(own).expanduser()):
        yield Finding(
            area="folders",
            what=f"{DATA} is {own}, which is no folder that can be read",
            state="wrong",
            advice=f"correct or unset {DATA}",
        )


def _settings() -> Iterator[Finding]:
    """Variables of the environment; of what may be a secret only that it is set."""
    for name in sorted(name for name in os.environ if name.startswith(SHOWN)):
        value = "is set" if SECRET.search(name) else f"= {re.sub(r'//[^/@]*@', '//', os.environ[name])}"
        yield Finding(area="settings", what=f"{name} {value}")


def _server(url: str) -> Finding:
    try:
        from ke_core.models.api.client import Client  # noqa: PLC0415  the HTTP library, an optional extra
        from ke_core.models.api.faults import Transient  # noqa: PLC0415  as above
        from ke_core.models.api.spec import address  # noqa: PLC0415  beside its use
    except ModuleNotFoundError:
        advice = "pip install 'ke-core[api]'"
        return Finding(area="server", what="models behind a server need httpx2", state="wrong", advice=advice)
    try:
        client = Client.open(address(url), key_env="OPENAI_API_KEY", timeout=TIMEOUT, concurrency=1)
        listed = client.once("GET", "/models").get("data")
    except (Transient, KEError) as error:
        advice = getattr(error, "hint", "") or "start the server, or correct the base URL"
        return Finding(area="server", what=str(error), state="wrong", advice=advice)
    names = [str(one.get("id")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return Finding(area="server", what=f"{client.url} answers, and lists {', '.join(names[:5]) or 'no model'}")


def _writable(area: str, folder: Path, advice: str) -> Finding:
    """Whether a file can be made there, or in the nearest folder above that there is; the file is gone again."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there):
            free = shutil.disk_usage(there).free
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return Finding(area=area, what=f"{folder} cannot be written: {why}", state="wrong", advice=advice)
    what = f"{folder} can be written, {free / GIB:.1f} GiB free"
    if free < LITTLE_DISK:
        return Finding(area=area, what=what, state="note", advice="free some space, or take another disk")
    return Finding(area=area, what=what)


def _readable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)


def _size(folder: Path) -> int:
    """Bytes of the files in it, links not followed; what cannot be read counts nothing."""
    total = 0
    for base, _folders, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(Path(base) / name).st_size
            except OSError:
                continue
    return total
