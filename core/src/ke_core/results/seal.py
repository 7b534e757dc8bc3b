"""The checksum of the records when they were scored. From then on they may grow, but not change.

It shows manual changes, whether the run was complete then, and whether anything was asked since.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from attrs import frozen

from ke_core.results.lines import MEND, to_bytes, whole_lines
from ke_core.spec.errors import BadRun
from ke_core.storage.files import write_atomic
from ke_core.storage.json_reading import loads, read_object

SEAL = "records.seal.json"
ANSWERS = frozenset({"batch", "replied", "probed"})
"""Lines that scores are computed from, without judgments that are not scored yet."""


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
        """Of the records as they are now."""
        size, sha256 = _sealed(records)
        return cls(size=size, sha256=sha256, complete=complete)

    @classmethod
    def read(cls, run: Path) -> Seal | None:
        """That of the run in ``run``; None where it has none. Raises BadRun."""
        if not (run / SEAL).exists():
            return None
        raw = read_object(run / SEAL, error=BadRun, hint=f"ke score {run}")
        size, sha256, complete = raw.get("bytes"), raw.get("sha256"), raw.get("complete")
        if type(size) is int and size >= 0 and isinstance(sha256, str) and isinstance(complete, bool):
            return cls(size=size, sha256=sha256, complete=complete)
        raise BadRun(f"{run / SEAL} was changed manually", hint=f"ke score {run}")

    def write(self, run: Path) -> None:
        """Whole, or not at all."""
        raw = {"bytes": self.size, "sha256": self.sha256, "complete": self.complete}
        write_atomic(run / SEAL, to_bytes(raw))

    def refuse_changed(self, records: Path) -> None:
        """Raise BadRun if the records are not, up to where they were scored, what they were then."""
        if _sealed(records, self.size) != (self.size, self.sha256):
            raise BadRun(
                f"{records} was changed manually after it was scored: its first {self.size} bytes are not what they "
                "were",
                hint=f"{MEND}; ke score {records.parent} takes it as it is now",
            )

    def shorter(self, records: Path) -> bool:
        """Whether some of the records are gone."""
        return not records.exists() or records.stat().st_size < self.size

    def outgrown(self, records: Path) -> bool:
        """Return whether edits or replies were recorded after the scores. A line that cannot be read counts as one."""
        with records.open("rb") as stream:
            stream.seek(self.size)
            return any(line.endswith(b"\n") and _is_answer(line) for line in stream)


def _is_answer(line: bytes) -> bool:
    try:
        return loads(line, surrogates=True).get("kind") in ANSWERS
    except (ValueError, AttributeError):
        return True


def _sealed(file: Path, size: int | None = None) -> tuple[int, str]:
    """Bytes and SHA-256 of the whole lines of a file; ``size``: of at most so many bytes of it."""
    content = hashlib.sha256()
    read = 0
    for _number, line in whole_lines(file):
        part = line if size is None else line[: size - read]
        content.update(part)
        read += len(part)
        if read == size:
            break
    return read, content.hexdigest()
