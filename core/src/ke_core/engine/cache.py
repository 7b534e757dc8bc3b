"""Cache completions on disk.

The key is a hash of the model's digest (edits included), the prompt and the decoding, so completions of an edited model
are never used for another model. The cache is one SQLite file: it survives SIGKILL and serves several processes. A row
with a wrong checksum counts as missing, and a file that SQLite cannot read is replaced.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from ke_core.spec.codec import canonical, digest, from_json, to_json
from ke_core.spec.errors import ContentRefused, KEError
from ke_core.spec.requests import Generate, Generated, Score
from ke_core.spec.results import Scored
from ke_core.storage.files import file_errors, locked
from ke_core.storage.json_reading import loads

SCHEMA = 1
Completion = Generated | Scored | ContentRefused
"""A refusal that was charged is cached too, because another request would be charged again."""
KINDS: Mapping[str, type[Generated | Scored]] = {"generated": Generated, "scored": Scored}
REFUSED = "refused"
TABLE = "CREATE TABLE IF NOT EXISTS completion (key TEXT PRIMARY KEY, value TEXT, checksum TEXT) WITHOUT ROWID"
AT_ONCE = 500  # variables in one statement; the limit of old versions of SQLite is 999
PATIENCE = 60.0  # seconds for another process to finish its writing
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def key_of(model: str, request: Generate | Score) -> str:
    """Return the key of a completion: 64 hex digits. ``model`` is ``LanguageModel.digest``."""
    asked: dict[str, object] = {"schema": SCHEMA, "model": model}
    if isinstance(request, Score):
        asked["matched"] = [list(pair) for pair in request.pairs]  # "pairs": results without ``Scored.matches``
    else:
        asked |= {"prompt": request.prompt, "max_tokens": request.max_tokens, "stop": list(request.stop)}
        if request.temperature > 0:  # greedy text depends on neither of these
            asked |= {"temperature": request.temperature, "top_k": request.top_k, "seed": request.seed}
    return digest(asked)


class CompletionCache:
    """``path``: the file, or None to keep everything in memory. Any thread may use it."""

    def __init__(self, path: Path | None = None) -> None:
        self._path, self._lock = path, RLock()
        with self._repaired():
            self._open()

    def get(self, keys: Iterable[str]) -> dict[str, Completion]:
        """Return the cached completions among ``keys``. Raises KEError if the file cannot be read."""
        wanted = list(keys)
        found: dict[str, Completion] = {}
        with self._repaired():
            for start in range(0, len(wanted), AT_ONCE):
                some = wanted[start : start + AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, value, checksum FROM completion WHERE key IN ({marks})"  # noqa: S608  only marks
                for key, value, checksum in self._base.execute(query, some):
                    completion = _read(key, value, checksum)
                    if completion is not None:
                        found[key] = completion
        return found

    def put(self, completions: Mapping[str, Completion]) -> None:
        """Store completions in one transaction. Raises KEError if the disk is full."""
        rows = [row for key, completion in completions.items() if (row := _row(key, completion))]
        for _once_more in range(2):  # a damaged file is replaced with an empty one; these completions were paid for
            with self._repaired(), self._base:
                self._base.executemany("INSERT OR REPLACE INTO completion VALUES (?, ?, ?)", rows)
                return

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def _open(self) -> None:
        if self._path is not None:
            with file_errors(f"cannot write {self._path}"):
                self._path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(self._path or ":memory:", timeout=PATIENCE, check_same_thread=False)
        self._inode = self._path.stat().st_ino if self._path else 0
        with self._base:
            self._base.execute(TABLE)

    @contextmanager
    def _repaired(self) -> Iterator[None]:
        """Exclude other threads, and replace a damaged file with an empty one. Other errors propagate."""
        try:
            with self._lock:
                yield
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) not in DAMAGED or self._path is None:
                raise KEError(
                    f"cannot use the completion cache {self._path}: {error}",
                    hint="free some space, wait for the other process, or set KE_CACHE_DIR to a folder on a local disk",
                ) from error
            self._replace(self._path)

    def _replace(self, path: Path) -> None:
        self._base.close()
        with locked(path.with_name(f"{path.name}.lock")):
            if path.exists() and path.stat().st_ino == self._inode:  # otherwise another process has replaced it
                for name in (path.name, f"{path.name}-journal"):
                    path.with_name(name).unlink(missing_ok=True)
            self._open()


def _row(key: str, completion: Completion) -> tuple[str, str, str] | None:
    """Return the row of a completion, or None if it is not JSON (a log-probability of minus infinity).

    A lone surrogate, which UTF-8 cannot encode, is written as a JSON escape.
    """
    try:
        value = canonical(_tagged(completion)).encode("utf-8", "backslashreplace").decode()
    except ValueError:
        return None
    return key, value, _checksum(key, value)


def _tagged(completion: Completion) -> dict[str, object]:
    if isinstance(completion, ContentRefused):
        return {REFUSED: completion.message}
    return {"scored" if isinstance(completion, Scored) else "generated": to_json(completion)}


def _read(key: str, value: object, checksum: object) -> Completion | None:
    if not isinstance(value, str) or checksum != _checksum(key, value):
        return None
    ((kind, raw),) = loads(value, surrogates=True).items()
    if kind == REFUSED:
        return ContentRefused(raw, charged=True)
    return from_json(raw, KINDS[kind], of="a cached completion")


def _checksum(key: str, value: str) -> str:
    return hashlib.sha256(f"{key}{value}".encode()).hexdigest()[:16]
