"""Where files live, how they are written whole or not at all, and how a pinned one is fetched.

Environment: ``KE_CACHE_DIR`` (everything that can be made again: models, statistics, completions) and
``KE_DATA_DIR`` (data files you put there yourself, as ``DIR/<family>/<published file name>``).
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from ke_core.spec.errors import BadData, BadRun, KEError

try:
    import fcntl
except ImportError:  # pragma: no cover  Windows: two processes may then do the same work twice
    fcntl = None  # type: ignore[assignment]

CACHE, DATA = "KE_CACHE_DIR", "KE_DATA_DIR"
CHUNK = 1 << 20
TIMEOUT = 60.0  # seconds without a byte
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The system's numbers of errors of a disk that takes no more: it is full, or a quota, or the longest file."""
FULL_DISK = "free some space, or point KE_CACHE_DIR (or --out) at another disk"
CHOOSE_WRITABLE = "name a place that you may write to"


def cache_dir() -> Path:
    """``KE_CACHE_DIR``, else ``ke`` in ``XDG_CACHE_HOME``, else ``~/.cache/ke``; it need not exist yet."""
    own = os.environ.get(CACHE)
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser() if shared else Path.home() / ".cache") / "ke"


def data_dirs(explicit: Path | None = None) -> tuple[Path, ...]:
    """Where data files are looked for, in order: ``explicit``, ``KE_DATA_DIR``, the cache's ``data`` folder."""
    own = os.environ.get(DATA)
    given = [explicit] if explicit else []
    return tuple(given + ([Path(own).expanduser()] if own else []) + [cache_dir() / "data"])


def data_places(family: str, file: str, explicit: Path | None = None) -> tuple[Path, ...]:
    """Where a data file of a benchmark family is looked for, in order; the last is where a fetched one is put."""
    return tuple(path for folder in data_dirs(explicit) for path in (folder / file, folder / family / file))


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def git_blob_id(path: Path) -> str:
    """The id of a file's content in Git, in hex."""
    found = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()


def write_atomic(path: Path, content: bytes | Callable[[Path], object]) -> None:
    """Put ``content`` at ``path`` whole, or leave what is there as it is.

    ``content`` may be a function that writes the file whose path it is given. The new file is complete and
    on the disk before it takes the old one's name, with the old one's mode: what was private never stands open.
    Behind a symbolic link it is written where that leads. Raises KEError on a full disk and other troubles of the
    file system.
    """
    with file_errors(f"cannot write {path}"):
        to = Path(os.path.realpath(path)) if path.is_symlink() else path
        to.parent.mkdir(parents=True, exist_ok=True)
        new = hidden_sibling(to)
        try:
            old = to.stat().st_mode if to.exists() else None
            new.touch(0o666 if old is None else 0o600)
            mode = new.stat().st_mode if old is None else old  # some writers make their files private
            if isinstance(content, bytes):
                new.write_bytes(content)
            else:
                content(new)
            to_disk(new)
            new.chmod(mode)
            new.replace(to)
        finally:
            new.unlink(missing_ok=True)


def hidden_sibling(path: Path) -> Path:
    """A hidden name in the same folder that nobody else uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}")


@contextmanager
def locked(path: Path, *, busy: str = "") -> Iterator[None]:
    """Hold the lock file ``path``; the system drops it with the process that held it.

    A second process waits, or with ``busy`` raises BadRun with that line. Who holds it may remove the file.
    """
    while True:
        with file_errors(f"cannot write {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            stream = path.open("ab")
        with stream:
            if fcntl is not None:
                with file_errors(f"cannot lock {path}"):
                    try:
                        fcntl.flock(stream, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
                    except BlockingIOError as error:
                        raise BadRun(busy, hint="wait until it has finished, or choose another folder") from error
            if still_named(stream, path):
                yield
                return
        # Removed while this process waited: others lock the file that has the name now.


def still_named(stream: IO[bytes], path: Path) -> bool:
    """Whether the open file still has that name; what is written to one that was removed is lost."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def file_errors(doing: str) -> Iterator[None]:
    """Turn the file system's errors into one line that begins with ``doing``."""
    try:
        yield
    except OSError as error:
        hint = FULL_DISK if error.errno in FULL else CHOOSE_WRITABLE
        raise KEError(f"{doing}: {(error.strerror or str(error)).lower()}", hint=hint) from error


def fetch(url: str, sha256: str, to: Path, *, size: int = 0) -> Path:
    """Download ``url`` to ``to``, unless the file is there already; its content must have that SHA-256.

    ``size``: its bytes, where they are known (else 0); the download of a longer file is broken off. An interrupted
    download goes on where it stopped. Raises BadData when the server cannot be reached, stops in the middle or sends
    something else.
    """
    if to.is_file() and sha256_of(to) == sha256:
        return to
    part = to.with_name(f"{to.name}.{sha256[:12]}.part")  # the pin in the name: no rest of another version
    with locked(to.with_name(f"{to.name}.lock")):
        if to.is_file() and sha256_of(to) == sha256:
            return to  # another process was faster
        _download(url, part, size)
        if wrong := _unlike(part, sha256, size):
            part.unlink()
            raise BadData(
                f"what {_host(url)} sends is not the pinned file: {wrong}",
                hint="it was changed where it is published, or on the way; fetch it by hand and compare",
            )
        with file_errors(f"cannot write {to}"):
            to_disk(part)
            part.replace(to)
    return to


def find_data(
    family: str, file: str, *, explicit: Path | None = None, url: str = "", sha256: str = "", size: int = 0
) -> Path:
    """The data file ``file`` of the benchmark family ``family``.

    Looked for as ``DIR/file`` and ``DIR/family/file`` in ``data_dirs(explicit)``; else fetched, if ``url`` and
    ``sha256`` are known. A file found on disk is taken as it is: its hash stands in the run's specification.
    Raises BadData, which says where the file is published and where to put it.
    """
    places = data_places(family, file, explicit)
    for path in places:
        if path.is_file():
            return path
    to = places[-1]
    put = f"{url and f'get it from {url} and '}put it at {to}, or pass --data-dir or set {DATA}"
    if not (url and sha256):
        raise BadData(f"{file} of {family} is not here", hint=put)
    try:
        return fetch(url, sha256, to, size=size)
    except KEError as error:
        raise BadData(f"{file} of {family} is not here: {error.message}", hint=put) from error


def _unlike(part: Path, sha256: str, size: int) -> str:
    """In what a download differs from the pinned file; empty if in nothing."""
    if size and part.stat().st_size > size:
        return f"it is longer than {size} bytes"
    found = sha256_of(part)
    return "" if found == sha256 else f"sha256 is {found}, expected {sha256}"


def _download(url: str, part: Path, most: int) -> None:
    """Append to ``part`` what is missing of ``url``; beyond ``most`` bytes (0: any number) no more of it."""
    from http.client import HTTPException  # noqa: PLC0415  see _open

    have = part.stat().st_size if part.exists() else 0
    try:
        with _open(url, have) as answer:
            size = int(answer.headers.get("Content-Length") or -1)
            got = _copy(answer, part, "ab" if answer.status == HTTPStatus.PARTIAL_CONTENT else "wb", most)
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        why = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
        raise BadData(
            f"cannot fetch it from {_host(url)}: {why.lower()}", hint="check the network and run it again"
        ) from error
    if size not in (-1, got) and not (most and part.stat().st_size > most):
        raise BadData(
            f"cannot fetch it from {_host(url)}: the server stopped after {got} of {size} bytes",
            hint="run it again: it goes on where it stopped",
        )


def _open(url: str, have: int) -> Any:
    """The server's answer, from byte ``have`` on where it knows how to do that."""
    import urllib.error  # noqa: PLC0415  15 ms that every plugin's import would pay
    import urllib.request  # noqa: PLC0415  as above

    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310  http(s) and file are what a pin may name
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310  as above
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise  # else nothing is missing, or the rest is of another file: begin again
        return _open(url, 0)


def _host(url: str) -> str:
    """Of an address what a user needs: the whole of it stands in the hint."""
    return urlsplit(url).netloc or url


def _copy(answer: Any, part: Path, mode: str, most: int) -> int:
    """Bytes copied, till ``part`` is longer than ``most``. What came before the connection broke stays written."""
    got, doing = 0, f"cannot write {part}"
    with file_errors(doing):
        stream = part.open(mode)
    with stream:
        while chunk := answer.read(CHUNK):
            with file_errors(doing):
                stream.write(chunk)
                stream.flush()
            got += len(chunk)
            if most and stream.tell() > most:
                break
    return got


def to_disk(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with path.open("rb+") as stream:  # Windows writes out only what is open for writing
        os.fsync(stream.fileno())
