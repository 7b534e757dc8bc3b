"""A run is a folder: ``run.json`` (what was asked for), ``records.jsonl`` (what happened), ``scores.json``, a log.

``run.json`` is canonical JSON written once; the hash of its ``spec`` is the run's id. ``records.jsonl`` is
only ever appended. ``scores.json`` can be deleted: it is computed from the records. ``log.jsonl`` says when and how,
for people. Whether a run is finished, records, seal and scores say.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from ke_core.storage.files import file_errors, write_atomic
from ke_core.storage.json_reading import read_object

RUN, RECORDS, SCORES = "run.json", "records.jsonl", "scores.json"
PART = "records.part-{rank}.jsonl"
"""What one of several processes has recorded, until the first of them takes it into ``records.jsonl``."""
DAMAGED = "records.damaged"
"""Lines that could not be read any more, and were asked again."""
REPORTED = ("ke-core", "torch", "transformers", "accelerate", "numpy")
CHOOSE_OTHER_FOLDER = "choose another folder with --out"


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
class _About:
    """The fields of ``run.json`` that are not part of the run's id."""

    environment: Mapping[str, str] = field(factory=dict)
    created: str = ""
    files: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class RunFolder:
    """An open run. Not part of its id: ``environment`` and ``created`` (UTC, ISO 8601), which are for people.

    ``files`` says where the user's own files lay that its dataset was read from, by what stands for them in ``spec``.
    """

    path: Path
    spec: RunSpec
    environment: Mapping[str, str] = field(factory=dict)
    created: str = ""
    files: Mapping[str, str] = field(factory=dict)

    @classmethod
    def create(cls, path: Path, spec: RunSpec, files: Mapping[str, str] | None = None) -> RunFolder:
        """A new run in ``path``, or the one that is there if it is the same run.

        Raises BadRun if ``path`` holds another run or something else, BadConfig if an option is a secret of the
        environment, KEError if it cannot be written.
        """
        if (path / RUN).exists():
            folder = cls.open(path)
            if folder.spec.id != spec.id:
                raise BadRun(f"{path} holds another run: {run_difference(folder.spec, spec)}", hint=CHOOSE_OTHER_FOLDER)
            return folder
        if path.exists() and not (path.is_dir() and all(_torn(file) for file in path.iterdir())):
            if (path / RUN).exists():  # another of the processes that share the run has begun it just now
                return cls.create(path, spec, files)
            raise BadRun(f"{path} holds something else, not a run", hint=CHOOSE_OTHER_FOLDER)
        folder = cls(
            path=path,
            spec=spec,
            environment=environment(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            files=files or {},
        )
        refuse_secrets(to_json(spec), of=str(path / RUN))
        raw = {"id": spec.id, "spec": to_json(spec), "environment": folder.environment, "created": folder.created}
        write_atomic(path / RUN, to_bytes(raw | ({"files": dict(folder.files)} if folder.files else {})))
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run in ``path``. Raises BadRun in one line if there is none, or not as ke has written it."""
        file = path / RUN
        if not file.exists():
            what = "is not a run folder: it has no run.json" if path.exists() else "does not exist"
            raise BadRun(f"{path} {what}", hint="ke runs lists the runs there are")
        raw = read_object(file, error=BadRun, hint=CHOOSE_OTHER_FOLDER)
        if not isinstance(raw.get("spec"), dict):
            raise BadRun(f"{file} is not the description of a run", hint=CHOOSE_OTHER_FOLDER)
        refuse_other(raw["spec"].get("schema"), of=str(file))
        spec = from_json(raw["spec"], RunSpec, of=str(file), error=BadRun, hint=CHOOSE_OTHER_FOLDER)
        if not raw.get("id") == spec.id == digest(raw["spec"]):
            raise BadRun(
                f"{file} was changed after the run was started: its id no longer fits",
                hint="undo the change, or start the run you want in another folder",
            )
        about = {name: raw[name] for name in ("environment", "created", "files") if name in raw}
        return cls(
            path=path,
            spec=spec,
            **asdict(from_json(about, _About, of=str(file), error=BadRun, hint=CHOOSE_OTHER_FOLDER)),
        )

    @staticmethod
    def is_one(path: Path) -> bool:
        """Whether a run was begun in ``path``, damaged or not."""
        return (path / RUN).is_file()

    @property
    def id(self) -> str:
        """The run's id, 64 hex digits."""
        return self.spec.id

    @contextmanager
    def writing(self, held: Writer | None = None) -> Iterator[Writer]:
        """The only way to append records. Raises BadRun if another process is writing.

        ``held``: the writer of a caller that is writing already.
        """
        if held is not None:
            yield held
            return
        with open_writer(self.path / RECORDS) as writer:
            yield writer

    def read(self) -> Iterator[Record]:
        """Every record, in order. A torn last line (a killed process) is left out; another one is BadRun."""
        return read_records(self.path / RECORDS)

    def parts(self) -> list[Path]:
        """What processes that shared this run have recorded, and the first of them has not taken in yet."""
        return sorted(self.path.glob(PART.format(rank="*")))

    def set_aside(self, writer: Writer) -> None:
        """Move a last line that is not JSON (a failing disk) out of the records, so that it is asked again.

        The scores go too: they may rest on it.
        """
        if moved := writer.set_aside(self.path / DAMAGED):
            self._remove(SCORES, SEAL)
            what = f"the last {moved} bytes of {RECORDS} were not JSON: they lie in {DAMAGED}, and are asked again"
            self.log("warning", what="damaged records", message=what)

    def refuse_changed(self) -> None:
        """Raise BadRun if the records are no longer what they were when they were scored; they may have grown."""
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
        """True if everything that was planned is recorded, judged and scored. An imported run holds all of its file."""
        try:
            seal = Seal.read(self.path)
        except BadRun:
            return False
        complete = seal is not None and (seal.complete or self.spec.model.source == IMPORTED)
        return complete and seal is not None and not seal.shorter(self.path / RECORDS)

    @property
    def finished(self) -> bool:
        """True if every planned request is recorded and the scores are current."""
        if not (self.complete and (self.path / SCORES).exists()) or self.parts():
            return False
        seal = Seal.read(self.path)
        return seal is not None and not seal.outgrown(self.path / RECORDS)

    def write_scores(self, raw: Mapping[str, Any]) -> None:
        """Write ``scores.json``, whole or not at all; the same scores give the same bytes.

        Beside it stands what the records were. Written first, and without scores until they are: killed in between,
        no scores stand beside the seal of other records.
        """
        seal = Seal.of(self.path / RECORDS, complete=self.complete)
        self._remove(SCORES)
        seal.write(self.path)
        write_atomic(self.path / SCORES, to_bytes(raw))

    def _remove(self, *names: str) -> None:
        for name in names:
            with file_errors(f"cannot remove {self.path / name}"):
                (self.path / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Say that everything planned is on record, judged and scored: from now on the run is finished."""
        seal = Seal.read(self.path)
        assert seal is not None, "a run is closed once it is scored"
        evolve(seal, complete=True).write(self.path)

    def scores(self) -> dict[str, Any]:
        """What ``scores.json`` holds. Raises BadRun if the run has not been scored, or its records changed since."""
        file = self.path / SCORES
        if not file.exists():
            raise BadRun(f"{self.path} has not been scored", hint=f"ke score {self.path}")
        raw = read_object(file, error=BadRun, hint=f"delete it and run ke score {self.path}")
        refuse_other(raw.get("schema"), of=str(file))
        self.refuse_changed()
        return raw


def read_records(file: Path) -> Iterator[Record]:
    """Every record of a file that is only appended to. A torn last line is left out; another one is BadRun."""
    for number, line in whole_lines(file):
        yield from_line(line, of=f"{file}, line {number}")


def runs_in(root: Path) -> Iterator[tuple[Path, RunFolder | BadRun]]:
    """Every folder under ``root`` (itself included) with a ``run.json``, sorted; a damaged one with its error."""
    for file in sorted(root.rglob(RUN)):
        try:
            yield file.parent, RunFolder.open(file.parent)
        except BadRun as error:
            yield file.parent, error


def _torn(file: Path) -> bool:
    """Whether this is what a process killed while it wrote ``run.json`` left behind."""
    return file.name.startswith(f".{RUN}.")
