"""Find published files on this machine, or download them and verify their checksum."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ke_core.plugin import BadData, KEError, data_places, file_errors, flush, locked, sha256_of

CHUNK = 1 << 20  # bytes read at once
TIMEOUT = 60.0  # seconds without a byte


def fetch(url: str, sha256: str, to: Path) -> Path:
    """Download ``url`` to ``to``, unless the file exists; its content must have that SHA-256.

    An interrupted download resumes. Raises BadData if the server cannot be reached, stops, or sends another file.
    """
    if to.is_file() and sha256_of(to) == sha256:
        return to
    part = to.with_name(f"{to.name}.{sha256[:12]}.part")  # the checksum in the name prevents mixing two versions
    with locked(to.with_name(f"{to.name}.lock")):
        if to.is_file() and sha256_of(to) == sha256:
            return to  # another process was faster
        _download(url, part)
        if (found := sha256_of(part)) != sha256:
            part.unlink()
            raise BadData(
                f"the file from {_host(url)} is not the pinned one: sha256 is {found}, expected {sha256}",
                hint="it was changed at its source or on the way; download it manually and compare",
            )
        with file_errors(f"cannot write {to}"):
            flush(part)
            part.replace(to)
    return to


def find_data(family: str, file: str, *, explicit: Path | None = None, url: str = "", sha256: str = "") -> Path:
    """Return the data file ``file`` of the benchmark family ``family``.

    Searched as ``DIR/file`` and ``DIR/family/file`` in ``data_dirs(explicit)``; otherwise downloaded, if ``url`` and
    ``sha256`` are known. A local file is used without verification: its hash is part of the run's specification. Raises
    BadData with instructions.
    """
    places = data_places(family, file, explicit)
    for path in places:
        if path.is_file():
            return path
    to = places[-1]
    put = f"{url and f'get it from {url} and '}put it at {to}, or pass --data-dir or set KE_DATA_DIR"
    if not (url and sha256):
        raise BadData(f"{file} of {family} is missing", hint=put)
    try:
        return fetch(url, sha256, to)
    except KEError as error:
        raise BadData(f"{file} of {family} is missing: {error.message}", hint=put) from error


def _download(url: str, part: Path) -> None:
    """Append the missing part of ``url`` to ``part``."""
    from http.client import HTTPException  # noqa: PLC0415  see _open

    have = part.stat().st_size if part.exists() else 0
    try:
        with _open(url, have) as answer:
            size = int(answer.headers.get("Content-Length") or -1)
            got = _copy(answer, part, "ab" if answer.status == HTTPStatus.PARTIAL_CONTENT else "wb")
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        why = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
        raise BadData(
            f"cannot download it from {_host(url)}: {why.lower()}", hint="check the network and run the command again"
        ) from error
    if size not in (-1, got):
        raise BadData(
            f"cannot download it from {_host(url)}: the server stopped after {got} of {size} bytes",
            hint="run the command again: it resumes",
        )


def _open(url: str, have: int) -> Any:
    """Return the server's answer, from byte ``have`` if it supports ranges."""
    import urllib.error  # noqa: PLC0415  15 ms that the import of every dataset would pay
    import urllib.request  # noqa: PLC0415  as above

    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310  http(s) and file are what a pin may name
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310  as above
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise  # otherwise nothing is missing, or the rest belongs to another file: start again
        return _open(url, 0)


def _host(url: str) -> str:
    """Return the host of an address, or the address."""
    return urlsplit(url).netloc or url


def _copy(answer: Any, part: Path, mode: str) -> int:
    """Return the number of bytes copied. Bytes received before an error are kept."""
    got, doing = 0, f"cannot write {part}"
    with file_errors(doing):
        stream = part.open(mode)
    with stream:
        while chunk := answer.read(CHUNK):
            with file_errors(doing):
                stream.write(chunk)
                stream.flush()
            got += len(chunk)
    return got
