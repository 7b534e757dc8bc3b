"""The checksum of the records at the time of scoring. Afterwards, records may be appended but not changed.

The checksum detects manual changes and replies that were recorded after scoring.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from attrs import frozen

from ke_core.results.lines import RESTORE_HINT, raw_line, to_bytes, whole_lines
from ke_core.spec.codec import from_json
from ke_core.spec.errors import BadRun
from ke_core.storage.files import write_atomic
from ke_core.storage.json_reading import read_object

SEAL = "records.seal.json"
ANSWERS = frozenset({"batch", "replied", "probed"})
"""The kinds of lines that outdate the scores."""


@frozen(kw_only=True)
class Seal:
    """The first ``size`` bytes of the records and their SHA-256.

    ``complete``: every planned request is recorded.
    """

    size: int
    sha256: str
    complete: bool

    @classmethod
    def of(cls, records: Path, *, complete: bool) -> Seal:
        """Return the seal of the current records."""
        size, sha256 = _sealed(records)
        return cls(size=size, sha256=sha256, complete=complete)

    @classmethod
    def read(cls, run: Path) -> Seal | None:
        """Return the seal of the run in ``run``, or None if there is none. Raises BadRun."""
        if not (run / SEAL).exists():
            return None
        raw = read_object(run / SEAL, error=BadRun, hint=f"ke score {run}")
        raw["size"] = raw.pop("bytes", None)
        return from_json(raw, cls, of=str(run / SEAL), error=BadRun, hint=f"ke score {run}")

    def write(self, run: Path) -> None:
        """Write the seal atomically."""
        raw = {"bytes": self.size, "sha256": self.sha256, "complete": self.complete}
        write_atomic(run / SEAL, to_bytes(raw))

    def refuse_changed(self, records: Path) -> None:
        """Raise BadRun if the records that were scored have changed."""
        if _sealed(records, self.size) != (self.size, self.sha256):
            raise BadRun(
                f"{records} was changed manually after it was scored: its first {self.size} bytes differ",
                hint=f"{RESTORE_HINT}; ke score {records.parent} scores it as it is now",
            )

    def shorter(self, records: Path) -> bool:
        """Return whether records are missing."""
        return not records.exists() or records.stat().st_size < self.size

    def outgrown(self, records: Path) -> bool:
        """Return whether edits or replies were recorded after the scores. A line that cannot be read counts as one."""
        with records.open("rb") as stream:
            stream.seek(self.size)
            added = (raw_line(line) for line in stream if line.endswith(b"\n"))
            return any(not isinstance(raw, dict) or raw.get("kind") in ANSWERS for raw in added)


def _sealed(file: Path, size: int | None = None) -> tuple[int, str]:
    """Return the size and the SHA-256 of the complete lines of a file, or of its first ``size`` bytes."""
    content = hashlib.sha256()
    read = 0
    for _number, line in whole_lines(file):
        part = line if size is None else line[: size - read]
        content.update(part)
        read += len(part)
        if read == size:
            break
    return read, content.hexdigest()
