"""A run is a folder: ``run.json`` (what was asked for), ``records.jsonl`` (what happened), ``scores.json``, a log.

``run.json`` is canonical JSON written once; the hash of its ``spec`` is the run's id. ``records.jsonl`` is
only ever appended. ``scores.json`` can be deleted: it is computed from the records. ``log.jsonl`` says when and how.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ke_core.data.codec import digest, from_json, to_json
from ke_core.data.records import Record
from ke_core.data.runspec import RunSpec
from ke_core.errors import BadRun
from ke_core.files import write_atomic
from ke_core.results.lines import MEND, from_line, refuse_other, refuse_secrets, to_bytes, whole_lines
from ke_core.results.log import LOG, read_log, write_log
from ke_core.results.writer import Writer, writing

RUN, RECORDS, SCORES = "run.json", "records.jsonl", "scores.json"
SEAL = "records.seal.json"
"""What the records were when they were scored: bytes and SHA-256. Beside the scores, which say nothing of times."""
REPORTED = ("ke-core", "torch", "transformers", "accelerate", "numpy")
DONE = "done"
"""How a process that did all it was to do ends its part of the log."""
ELSEWHERE = "choose another folder with --out"


def environment() -> dict[str, str]:
    """Versions worth knowing when two runs differ. Not hashed, and no variable of the environment is in it."""
    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for name in REPORTED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@frozen(kw_only=True)
class RunFolder:
    """An open run. ``environment`` and ``created`` (UTC, ISO 8601) are for people, not part of the id."""

    path: Path
    spec: RunSpec
    environment: Mapping[str, str] = field(factory=dict)
    created: str = ""

    @classmethod
    def create(cls, path: Path, spec: RunSpec) -> RunFolder:
        """A new run in ``path``, or the one that is there if it is the same run.

        Raises BadRun if ``path`` holds another run or something else, BadConfig if an option is a secret of the
        environment, KEError if it cannot be written.
        """
        if (path / RUN).exists():
            folder = cls.open(path)
            if folder.spec.id != spec.id:
                raise BadRun(f"{path} holds another run: {difference(folder.spec, spec)}", hint=ELSEWHERE)
            return folder
        if path.exists() and not (path.is_dir() and all(_torn(file) for file in path.iterdir())):
            raise BadRun(f"{path} holds something else, not a run", hint=ELSEWHERE)
        folder = cls(
            path=path,
            spec=spec,
            environment=environment(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        refuse_secrets(to_json(spec), of=str(path / RUN))
        raw = {"id": spec.id, "spec": to_json(spec), "environment": folder.environment, "created": folder.created}
        write_atomic(path / RUN, to_bytes(raw))
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run in ``path``. Raises BadRun in one line if there is none, or not as ke has written it."""
        file = path / RUN
        try:
            raw = json.loads(file.read_bytes())
        except (FileNotFoundError, NotADirectoryError) as error:
            what = "is not a run folder: it has no run.json" if path.exists() else "does not exist"
            raise BadRun(f"{path} {what}", hint="ke runs lists the runs there are") from error
        except ValueError as error:
            raise BadRun(f"{file} is not JSON: {error}", hint=ELSEWHERE) from error
        if not isinstance(raw, dict) or not isinstance(raw.get("spec"), dict):
            raise BadRun(f"{file} is not the description of a run", hint=ELSEWHERE)
        refuse_other(raw["spec"].get("schema"), of=str(file))
        spec = from_json(raw["spec"], RunSpec, of=str(file), error=BadRun, hint=ELSEWHERE)
        if not raw.get("id") == spec.id == digest(raw["spec"]):
            raise BadRun(
                f"{file} was changed after the run was started: its id no longer fits",
                hint="undo the change, or start the run you want in another folder",
            )
        return cls(path=path, spec=spec, environment=raw.get("environment", {}), created=raw.get("created", ""))

    @staticmethod
    def is_one(path: Path) -> bool:
        """Whether a run was begun in ``path``, damaged or not."""
        return (path / RUN).is_file()

    @property
    def id(self) -> str:
        """The run's id, 64 hex digits."""
        return self.spec.id

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """The only way to append records. Raises BadRun if another process is writing."""
        with writing(self.path / RECORDS) as writer:
            yield writer

    def read(self) -> Iterator[Record]:
        """Every record, in order. A torn last line (a killed process) is left out; another one is BadRun."""
        file = self.path / RECORDS
        for number, line in whole_lines(file):
            yield from_line(line, of=f"{file}, line {number}")

    def log(self, event: str, **facts: Any) -> None:
        """Append an event to ``log.jsonl``, which is for people: nothing is computed from it."""
        write_log(self.path / LOG, event, **facts)

    def logged(self) -> list[Mapping[str, Any]]:
        """Every event of every process that worked on this run, oldest first; none where an earlier ke made it."""
        return list(read_log(self.path / LOG))

    @property
    def finished(self) -> bool:
        """Whether the last process that worked on this run came to its end, and left scores."""
        ends = [line.get("ended") for line in self.logged() if line["event"] in ("start", "end")]  # a start has none
        return ends[-1:] == [DONE] and (self.path / SCORES).exists()

    def write_scores(self, raw: Mapping[str, Any]) -> None:
        """Write ``scores.json``, whole or not at all; the same scores give the same bytes.

        Beside it stands what the records were: from now on they may grow, and not change.
        """
        size, sha256 = _sealed(self.path / RECORDS)
        (self.path / SEAL).unlink(missing_ok=True)  # else a process killed here would leave the seal of other records
        write_atomic(self.path / SCORES, to_bytes(raw))
        write_atomic(self.path / SEAL, to_bytes({"bytes": size, "sha256": sha256}))

    def scores(self) -> dict[str, Any]:
        """What ``scores.json`` holds. Raises BadRun if the run has not been scored, or its records changed since."""
        file = self.path / SCORES
        try:
            raw = json.loads(file.read_bytes())
        except FileNotFoundError as error:
            raise BadRun(f"{self.path} has not been scored", hint=f"ke score {self.path}") from error
        except ValueError as error:
            raise BadRun(f"{file} is not JSON: {error}", hint=f"delete it and run ke score {self.path}") from error
        if not isinstance(raw, dict):
            raise BadRun(f"{file} holds no scores", hint=f"delete it and run ke score {self.path}")
        refuse_other(raw.get("schema"), of=str(file))
        self._refuse_changed()
        return raw

    def _refuse_changed(self) -> None:
        """Raise BadRun if the records are not, up to where they were scored, what they were then."""
        try:
            seal = json.loads((self.path / SEAL).read_bytes())
            size, sha256 = int(seal["bytes"]), str(seal["sha256"])
        except FileNotFoundError:
            return  # scored by an earlier ke
        except (ValueError, KeyError, TypeError) as error:
            raise BadRun(f"{self.path / SEAL} was changed by hand", hint=f"ke score {self.path}") from error
        if _sealed(self.path / RECORDS, size) != (size, sha256):
            raise BadRun(
                f"{self.path / RECORDS} was changed by hand after it was scored: its first {size} bytes are not what "
                "they were",
                hint=f"{MEND}; ke score {self.path} takes it as it is now",
            )


def runs_in(root: Path) -> Iterator[tuple[Path, RunFolder | BadRun]]:
    """Every folder under ``root`` (itself included) with a ``run.json``, sorted; a damaged one with its error."""
    for file in sorted(root.rglob(RUN)):
        try:
            yield file.parent, RunFolder.open(file.parent)
        except BadRun as error:
            yield file.parent, error


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


def _torn(file: Path) -> bool:
    """Whether this is what a process killed while it wrote ``run.json`` left behind."""
    return file.name.startswith(f".{RUN}.")


def difference(there: object, here: object) -> str:
    """The first field in which two specifications differ, in the order of the specification."""
    path, old, new = next(_differing(to_json(there), to_json(here)))
    return f"its {path} is {_short(old)}, here it is {_short(new)}"


def _differing(there: Any, here: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(there, dict) and isinstance(here, dict):
        for name in (*there, *(name for name in here if name not in there)):
            yield from _differing(there.get(name), here.get(name), f"{path}.{name}" if path else name)
    elif there != here:
        yield path, there, here


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
