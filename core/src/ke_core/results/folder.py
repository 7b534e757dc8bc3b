"""The folder of a run: ``run.json`` (its specification), ``records.jsonl``, ``scores.json`` and ``log.jsonl``.

``run.json`` is canonical JSON and written once. The hash of its ``spec`` is the run's id. Lines are only appended to
``records.jsonl``. ``scores.json`` is computed from the records and can be deleted. ``log.jsonl`` is for people.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, field, frozen

from ke_core.results.difference import run_difference
from ke_core.results.lines import LOG, from_line, read_log, refuse_other, to_bytes, whole_lines, write_log
from ke_core.results.redaction import refuse_secrets
from ke_core.results.seal import SEAL, Seal
from ke_core.results.writer import Writer, open_writer
from ke_core.spec.codec import digest, from_json, to_json
from ke_core.spec.errors import BadRun
from ke_core.spec.records import Record
from ke_core.spec.runspec import IMPORTED, RunSpec
from ke_core.storage.files import remove_files, write_atomic
from ke_core.storage.json_reading import read_object

RUN, RECORDS, SCORES = "run.json", "records.jsonl", "scores.json"
PART = "records.part-{rank}.jsonl"
"""The records of one of several processes, until they are merged into ``records.jsonl``."""
DAMAGED = "records.damaged"
"""Damaged lines, whose requests were sent again."""
REPORTED = ("ke-core", "torch", "transformers", "accelerate", "numpy")
CHOOSE_OTHER_FOLDER = "choose another folder with --out"


def environment() -> dict[str, str]:
    """Return the versions of Python and of the libraries. They are not part of the run's id."""
    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for name in REPORTED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@frozen(kw_only=True)
class _About:
    """The fields of ``run.json`` that are for people, and not part of the run's id.

    ``created``: UTC, ISO 8601. ``files``: the paths of the user's own files that the dataset was read from, by their
    digest in the specification.
    """

    environment: Mapping[str, str] = field(factory=dict)
    created: str = ""
    files: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class RunFolder(_About):
    """An open run."""

    path: Path
    spec: RunSpec

    @classmethod
    def create(cls, path: Path, spec: RunSpec, files: Mapping[str, str] | None = None) -> RunFolder:
        """Create a run in ``path``, or open the run that is there if it is the same run.

        Raises BadRun if ``path`` holds another run or other files, BadConfig if an option is a secret of the
        environment, KEError if it cannot be written.
        """
        if (path / RUN).exists():
            folder = cls.open(path)
            if folder.spec.id != spec.id:
                raise BadRun(f"{path} holds another run: {run_difference(folder.spec, spec)}", hint=CHOOSE_OTHER_FOLDER)
            return folder
        # A process that is killed while it writes run.json leaves a file .run.json.*
        if path.exists() and not (path.is_dir() and all(file.name.startswith(f".{RUN}.") for file in path.iterdir())):
            if (path / RUN).exists():  # another process of the run has just created it
                return cls.create(path, spec, files)
            raise BadRun(f"{path} contains other files, not a run", hint=CHOOSE_OTHER_FOLDER)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        folder = cls(path=path, spec=spec, environment=environment(), created=now, files=files or {})
        refuse_secrets(to_json(spec), of=str(path / RUN))
        raw = {"id": spec.id, "spec": to_json(spec), "environment": folder.environment, "created": folder.created}
        write_atomic(path / RUN, to_bytes(raw | ({"files": dict(folder.files)} if folder.files else {})))
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open the run in ``path``. Raises BadRun if there is none, or if it is damaged."""
        file = path / RUN
        if not file.exists():
            what = "is not a run folder: it has no run.json" if path.exists() else "does not exist"
            raise BadRun(f"{path} {what}", hint="ke runs lists runs")
        raw = read_object(file, error=BadRun, hint=CHOOSE_OTHER_FOLDER)
        if not isinstance(raw.get("spec"), dict):
            raise BadRun(f"{file} is not the description of a run", hint=CHOOSE_OTHER_FOLDER)
        refuse_other(raw["spec"].get("schema"), of=str(file))
        spec = from_json(raw["spec"], RunSpec, of=str(file), error=BadRun, hint=CHOOSE_OTHER_FOLDER)
        if not raw.get("id") == spec.id == digest(raw["spec"]):
            raise BadRun(
                f"{file} was changed after the run was started: its id no longer fits",
                hint="undo the change, or start a new run in another folder",
            )
        about = {name: raw[name] for name in ("environment", "created", "files") if name in raw}
        found = from_json(about, _About, of=str(file), error=BadRun, hint=CHOOSE_OTHER_FOLDER)
        return cls(path=path, spec=spec, **asdict(found))

    @staticmethod
    def is_one(path: Path) -> bool:
        """Return whether ``path`` contains a run, damaged or not."""
        return (path / RUN).is_file()

    @property
    def id(self) -> str:
        """The run's id, 64 hex digits."""
        return self.spec.id

    def writing(self) -> AbstractContextManager[Writer]:
        """Open the records for appending. Raises BadRun if another process is writing."""
        return open_writer(self.path / RECORDS)

    def read(self) -> Iterator[Record]:
        """Yield every record. A truncated last line of a killed process is skipped. Raises BadRun for another one."""
        return read_records(self.path / RECORDS)

    def parts(self) -> list[Path]:
        """Return the unmerged record files of processes that shared this run."""
        return sorted(self.path.glob(PART.format(rank="*")))

    def set_aside(self, writer: Writer) -> None:
        """Move a last line that is not JSON out of the records, so that its requests are sent again.

        The scores are deleted too, because they may use the line.
        """
        if moved := writer.set_aside(self.path / DAMAGED):
            remove_files([self.path / SCORES, self.path / SEAL])
            what = f"the last {moved} bytes of {RECORDS} were not JSON: moved to {DAMAGED}, to be requested again"
            self.log("warning", what="damaged records", message=what)

    def refuse_changed(self) -> None:
        """Raise BadRun if the records that were scored have changed. They may have grown."""
        if seal := Seal.read(self.path):  # None before the first scoring
            seal.refuse_changed(self.path / RECORDS)

    def log(self, event: str, **facts: Any) -> None:
        """Append an event to ``log.jsonl``, which is for people: nothing is computed from it."""
        write_log(self.path / LOG, event, **facts)

    def logged(self) -> list[Mapping[str, Any]]:
        """Return every event of every process that worked on this run, oldest first."""
        return list(read_log(self.path / LOG))

    @property
    def complete(self) -> bool:
        """True if every planned request is recorded. An imported run is complete."""
        try:
            seal = Seal.read(self.path)
        except BadRun:
            return False
        if seal is None or not (seal.complete or self.spec.model.source == IMPORTED):
            return False
        return not seal.shorter(self.path / RECORDS)

    @property
    def finished(self) -> bool:
        """True if every planned request is recorded and the scores are current."""
        if not (self.complete and (self.path / SCORES).exists()) or self.parts():
            return False
        seal = Seal.read(self.path)
        return seal is not None and not seal.outgrown(self.path / RECORDS)

    def write_scores(self, raw: Mapping[str, Any]) -> None:
        """Write ``scores.json`` atomically. Equal scores give equal bytes.

        The old scores are deleted and the seal is written first, so that scores never have the seal of other records.
        """
        seal = Seal.of(self.path / RECORDS, complete=self.complete)
        remove_files([self.path / SCORES])
        seal.write(self.path)
        write_atomic(self.path / SCORES, to_bytes(raw))

    def close(self) -> None:
        """Mark the run as complete: every planned request is recorded. It is finished once these are scored."""
        seal = Seal.read(self.path) or Seal.of(self.path / RECORDS, complete=True)
        evolve(seal, complete=True).write(self.path)

    def scores(self, *, current: bool = True) -> dict[str, Any]:
        """Return the content of ``scores.json``. Raises BadRun if there is none, or if it is not ``current``.

        Scores are current if the records have not changed since.
        """
        file = self.path / SCORES
        if not file.exists():
            raise BadRun(f"{self.path} has not been scored", hint=f"ke score {self.path}")
        raw = read_object(file, error=BadRun, hint=f"delete it and run ke score {self.path}")
        refuse_other(raw.get("schema"), of=str(file))
        if current:
            self.refuse_changed()
        return raw


def read_records(file: Path) -> Iterator[Record]:
    """Yield every record of a file. A truncated last line is skipped. Raises BadRun for another one."""
    for number, line in whole_lines(file):
        yield from_line(line, of=f"{file}, line {number}")


def runs_in(root: Path) -> Iterator[tuple[Path, RunFolder | BadRun]]:
    """Yield every run in and under ``root``, sorted. A damaged run comes with its error."""
    for file in sorted(root.rglob(RUN)):
        try:
            yield file.parent, RunFolder.open(file.parent)
        except BadRun as error:
            yield file.parent, error
