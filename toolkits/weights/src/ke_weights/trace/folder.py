"""Files of a trace: ``spec.json`` (what is traced), ``facts.jsonl`` (each fact's numbers), ``trace.json`` (results).

The lines of ``facts.jsonl`` are in the order of the facts' file, so their number tells where a trace stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.app import (
    CHOOSE_OTHER_FOLDER,
    SCHEMA,
    ModelRef,
    environment,
    first_difference,
    open_writer,
    refuse_other,
    to_bytes,
    whole_lines,
)
from ke_core.plugin import BadRun, digest, from_json, parse_json, read_object, to_json, write_atomic
from ke_weights.trace.settings import FactTrace, TraceSettings

SPEC, FACTS, TRACE = "spec.json", "facts.jsonl", "trace.json"
Appender = Callable[[Iterable[FactTrace]], None]
"""Appends facts. They are on the disk when it returns."""


@frozen(kw_only=True)
class TraceSpec:
    """Everything that determines a fact's numbers, but not how many facts are traced: more can follow.

    ``facts`` is the name of their file and ``sha256`` of its content; ``attention`` the implementation in use.
    """

    model: ModelRef
    attention: str
    facts: str
    sha256: str
    settings: TraceSettings
    schema: int = SCHEMA

    @property
    def id(self) -> str:
        """SHA-256, in hex."""
        return digest(to_json(self))


@frozen(kw_only=True)
class TraceFolder:
    """An open trace."""

    path: Path
    spec: TraceSpec

    @classmethod
    def create(cls, path: Path, spec: TraceSpec) -> TraceFolder:
        """Create a trace in ``path``, or open the same one. Raises BadRun if it contains another."""
        file = path / SPEC
        if file.exists():
            known = _read(file)
            if known != spec:
                raise BadRun(
                    f"{path} contains another trace: {first_difference(known, spec)}", hint=CHOOSE_OTHER_FOLDER
                )
        elif path.exists() and not (path.is_dir() and all(at.name.startswith(f".{SPEC}.") for at in path.iterdir())):
            raise BadRun(f"{path} contains other files, not a trace", hint=CHOOSE_OTHER_FOLDER)
        else:
            created = datetime.now(UTC).isoformat(timespec="seconds")
            raw = {"spec": to_json(spec), "environment": environment(), "created": created}
            write_atomic(file, to_bytes(raw))
        return cls(path=path, spec=spec)

    def read(self) -> Iterator[FactTrace]:
        """Yield every saved fact in order, without a line torn by a killed process. Raises BadRun."""
        file = self.path / FACTS
        for number, line in whole_lines(file):
            yield _fact(line, f"{file}, line {number}")

    @contextmanager
    def writing(self) -> Iterator[Appender]:
        """Open for appending facts. Raises BadRun if another process is writing."""
        with open_writer(self.path / FACTS) as writer:
            yield lambda facts: writer.append_lines([b"".join(to_bytes(to_json(fact)) for fact in facts)])

    def write(self, results: Mapping[str, Any]) -> None:
        """Write ``trace.json``, completely or not at all."""
        write_atomic(self.path / TRACE, to_bytes({"spec": to_json(self.spec), "environment": environment(), **results}))


def _read(file: Path) -> TraceSpec:
    raw = read_object(file, error=BadRun, hint=CHOOSE_OTHER_FOLDER)
    if not isinstance(raw.get("spec"), dict):
        raise BadRun(f"{file} is not the description of a trace", hint=CHOOSE_OTHER_FOLDER)
    refuse_other(raw["spec"].get("schema"), of=str(file))
    return from_json(raw["spec"], TraceSpec, of=str(file), error=BadRun, hint=CHOOSE_OTHER_FOLDER)


def _fact(line: bytes, of: str) -> FactTrace:
    raw = parse_json(line, of, error=BadRun, hint=CHOOSE_OTHER_FOLDER)
    return from_json(raw, FactTrace, of=of, error=BadRun, hint=CHOOSE_OTHER_FOLDER)
