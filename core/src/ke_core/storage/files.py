"""Folders for cached and for data files, atomic writes, and locks.

Environment: ``KE_CACHE_DIR`` (everything that can be computed or fetched again: models, covariance, completions) and
``KE_DATA_DIR`` (your data files, as ``DIR/<family>/<published file name>``).
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen
from platformdirs import user_cache_path

from ke_core.spec.codec import canonical, digest
from ke_core.spec.errors import BadData, BadRun, DamagedArtifact, KEError
from ke_core.storage.json_reading import loads

CACHE, DATA = "KE_CACHE_DIR", "KE_DATA_DIR"
CHUNK = 1 << 20
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of a full disk, an exhausted quota, and a file that is too large."""
FULL_DISK = "free some space, or point KE_CACHE_DIR (or --out) at another disk"
CHOOSE_WRITABLE = "choose a path that you can write to"


def cache_dir() -> Path:
    """Return ``KE_CACHE_DIR``, or the user's cache folder of this system. It may not exist yet."""
    own = os.environ.get(CACHE)
    return Path(own).expanduser() if own else user_cache_path("ke", appauthor=False)


def data_places(family: str, file: str, explicit: Path | None = None) -> tuple[Path, ...]:
    """Return the paths that are searched for a data file of a family. Files are fetched to the last one.

    They are in ``explicit``, in ``KE_DATA_DIR``, and in ``data`` in the cache.
    """
    own = os.environ.get(DATA)
    given = ([explicit] if explicit else []) + ([Path(own).expanduser()] if own else [])
    return tuple(path for folder in (*given, cache_dir() / "data") for path in (folder / file, folder / family / file))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_atomic(path: Path, content: bytes | Callable[[Path], object]) -> None:
    """Write ``content`` to ``path`` completely, or leave the old file unchanged.

    ``content`` may be a function that writes the file whose path it is given. The new file is complete and
    on the disk before it replaces the old file. It has the old file's mode, and is private until then.
    Symbolic links are followed. Raises KEError for a full disk and other errors of the file system.
    """
    with file_errors(f"cannot write {path}"):
        to = Path(os.path.realpath(path)) if path.is_symlink() else path
        to.parent.mkdir(parents=True, exist_ok=True)
        new = hidden_sibling(to)
        try:
            old = to.stat().st_mode if to.exists() else None
            new.touch(0o666 if old is None else 0o600)
            mode = new.stat().st_mode if old is None else old  # some writers create private files
            if isinstance(content, bytes):
                new.write_bytes(content)
            else:
                content(new)
            flush(new)
            new.chmod(mode)
            new.replace(to)
        finally:
            new.unlink(missing_ok=True)


def remove_files(paths: Iterable[Path]) -> None:
    """Delete the files that exist. Raises KEError if the file system refuses it."""
    for path in paths:
        with file_errors(f"cannot remove {path}"):
            path.unlink(missing_ok=True)


def hidden_sibling(path: Path) -> Path:
    """Return an unused hidden name in the same folder."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}")


@contextmanager
def locked(path: Path, *, busy: str = "") -> Iterator[None]:
    """Hold the lock file ``path``. The system releases it when the process ends.

    A second process waits. With ``busy``, it raises BadRun with this message instead.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  imports asyncio, which registering a plugin must not

    lock = FileLock(path)
    with file_errors(f"cannot lock {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0 if busy else -1)
        except Timeout as error:
            raise BadRun(busy, hint="wait until it has finished, or choose another folder") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def file_errors(doing: str, *, hint: str = CHOOSE_WRITABLE) -> Iterator[None]:
    """Turn the file system's errors into one line that begins with ``doing``."""
    try:
        yield
    except OSError as error:
        hint = FULL_DISK if error.errno in FULL else hint
        raise KEError(f"{doing}: {(error.strerror or str(error)).lower()}", hint=hint) from error


def flush(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with path.open("rb+") as stream:  # Windows flushes only files that are open for writing
        os.fsync(stream.fileno())


def write_value(path: Path, content: Any) -> None:
    """Write a JSON value with its checksum, completely or not at all."""
    whole = canonical({"content": content, "sha256": digest(content)})
    write_atomic(
        path, whole.encode("utf-8", "backslashreplace")
    )  # half of a surrogate pair, which a model may generate


def read_value(path: Path, *, hint: str) -> Any:
    """Read a file of ``write_value``. Return None if it is missing. Raises BadData if it is damaged."""
    if not path.exists():
        return None
    try:
        raw = loads(path.read_bytes(), surrogates=True)
        whole = raw.keys() == {"content", "sha256"} and digest(raw["content"]) == raw["sha256"]
    except (AttributeError, OSError, ValueError):
        whole = False
    if not whole:
        raise BadData(f"{path} is damaged: its checksum does not match", hint=hint)
    return raw["content"]


def warn(error: BadData) -> None:
    """Warn in one line that an artifact is damaged, with the hint of ``error``."""
    warnings.warn(DamagedArtifact(f"{error.message}; {error.hint}"), stacklevel=3)


@frozen
class ArtifactStore:
    """``Artifacts`` in a folder: ``root/kind/<hash of the key><suffix>``, with the key in a JSON file next to it.

    A key identifies a model by its weights (``model.digest``) and not by its path, because two folders with the same
    name may contain different checkpoints.
    """

    root: Path

    def path(self, kind: str, key: Mapping[str, Any], suffix: str) -> Path:
        """Return the path of an artifact. Raises TypeError for a key that is not JSON, KEError for a full disk."""
        folder = self.root / kind
        with file_errors(f"cannot write {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        name = digest(key)[:32]
        key_file = folder / f"{name}.key.json"
        if not key_file.exists():
            write_atomic(key_file, canonical(key).encode())
        return folder / f"{name}{suffix}"


if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.error import HTTPError

FIRST = 1 << 20  # bytes of an error's body


def read_at_most(answer: HTTPResponse, limit: int) -> bytes:
    """Return the whole body, at most ``limit`` bytes.

    Raises ValueError for a longer body, HTTPException or OSError if the connection breaks.
    """
    from http.client import IncompleteRead  # noqa: PLC0415  15 ms that every plugin's import would pay

    body = answer.read(limit + 1)
    if len(body) > limit:
        raise ValueError(f"an answer of more than {limit >> 20} MiB")
    if answer.length:  # http.client accepts fewer bytes than were requested
        raise IncompleteRead(body, answer.length)
    return body


def read_error_body(error: HTTPError) -> bytes:
    """Return what can be read of the body of an error, to quote it."""
    from http.client import HTTPException  # noqa: PLC0415  as above

    try:
        return error.read(FIRST)
    except (OSError, HTTPException):
        return b""
