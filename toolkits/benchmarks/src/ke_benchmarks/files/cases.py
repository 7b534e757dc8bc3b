"""Files of cases: JSON lines, first a header, then one case on each line.

::

    {"format": "ke-cases", "schema": 1, "name": "my-facts", "license": "CC0-1.0", "source": "our wiki"}
    {"id": "1", "edits": [...], "probes": [...], "facts_before": [...], "facts_after": [...], "tags": {...}}

Fields with default values are omitted. All other fields must be present and have the right type. Unknown fields are
errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from attrs import Attribute, field, frozen, validators

from ke_benchmarks.files.records import structure_record
from ke_core.plugin import BadData, Case, Dataset, DatasetSpec, loads, problem, write_atomic

if TYPE_CHECKING:
    from cattrs import Converter

FORMAT, SCHEMA = "ke-cases", 1
HINT = f'the first line of a file of cases must be {{"format": "{FORMAT}", "schema": {SCHEMA}, "name": "..."}}'


def _known(_instance: object, attribute: Attribute[int], value: int) -> None:
    if not 1 <= value <= SCHEMA:
        raise ValueError(f"{attribute.name} is {value}, but this version of ke reads {SCHEMA}")


@frozen(kw_only=True)
class CaseHeader:
    """The first line of a file of cases.

    ``styles``, ``judge`` and ``metrics`` are those of the exported dataset, ``sha256`` is the checksum of its source.
    ``aspects``: of all its probes. ``cases``: number of cases; None if unknown.
    """

    format: str = field(default=FORMAT, validator=validators.in_((FORMAT,)))
    schema: int = field(default=SCHEMA, validator=_known)
    name: str = field(validator=validators.min_len(1))
    title: str = ""
    license: str = ""
    source: str = ""
    cite: str = ""
    styles: tuple[str, ...] = ()
    aspects: tuple[str, ...] = ()
    judge: str = ""
    metrics: tuple[str, ...] = ()
    cases: int | None = None
    sha256: str = ""


def write_cases(path: Path, header: CaseHeader, cases: Iterable[Case]) -> None:
    """Write the file atomically. Raises BadData for text that UTF-8 cannot encode, KEError on a full disk."""

    def lines(new: Path) -> None:
        with new.open("wb") as stream:
            stream.write(_line({"format": FORMAT, "schema": SCHEMA, **_sparse().unstructure(header)}, "the header"))
            for case in cases:
                stream.write(_line(_sparse().unstructure(case), f"case {case.id}"))

    write_atomic(path, lines)


def read_header(path: Path) -> CaseHeader:
    """Return the first line. Raises BadData."""
    with _opened(path) as stream:
        return _header(stream.readline(), path)


def read_cases(path: Path) -> Iterator[Case]:
    """Yield every case in order, as they are requested. Raises BadData with file, line and field."""
    for found in scan_cases(path):
        if isinstance(found, BadData):
            raise found
        yield found


def scan_cases(path: Path) -> Iterator[Case | BadData]:
    """Yield every case, or the error of its line, and continue after it. Raises BadData for an invalid header."""
    with _opened(path) as stream:
        header, lines = _header(stream.readline(), path), 0
        for number, line in enumerate(stream, start=2):
            if line.strip():
                lines += 1
                yield _case(line, f"{path}, line {number}")
    if header.cases not in (None, lines):
        yield BadData(
            f"{path} contains {lines} cases, but its header states {header.cases}",
            hint="it is truncated, or was changed: if changed, remove `cases` from its header",
        )


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as wrong:
        why = (wrong.strerror or str(wrong)).lower()
        raise BadData(f"cannot read {path}: {why}", hint="use `ke datasets export` to write a file of cases") from wrong


def _header(line: bytes, path: Path) -> CaseHeader:
    if not line.strip():
        raise BadData(f"{path} is empty or starts with an empty line", hint=HINT)
    raw = _parsed(line.removeprefix(b"\xef\xbb\xbf"), f"{path}, line 1", hint=HINT)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise BadData(f"{path} is not a file of cases: its first line is not a header", hint=HINT)
    return structure_record(raw, CaseHeader, where=f"{path}, line 1", hint=HINT)


def _case(line: bytes, where: str) -> Case | BadData:
    try:
        raw = _parsed(line, where)
        name = raw.get("id") if isinstance(raw, dict) else None
        named = f"{where} (case {name})" if isinstance(name, str) and name.strip() else where
        return structure_record(raw, Case, where=named, hint="fix that line, or export the file again")
    except BadData as wrong:
        return wrong


def _parsed(line: bytes, where: str, *, hint: str = "it must have one JSON object per line, in UTF-8") -> Any:
    try:
        return loads(line.strip())
    except ValueError as wrong:
        raise BadData(f"{where} {problem(wrong)}", hint=hint) from wrong


def _line(raw: Any, where: str) -> bytes:
    try:
        return json.dumps(raw, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError as wrong:
        raise BadData(
            f"{where} cannot be written in UTF-8: {wrong.object[wrong.start : wrong.end]!r}",
            hint="its text contains half of a surrogate pair",
        ) from wrong


@cache
def _sparse() -> Converter:
    """Omit fields with default values: a case is a fifth shorter and readable."""
    from cattrs.preconf.json import make_converter  # noqa: PLC0415  as above

    return make_converter(omit_if_default=True)


def export(dataset: Dataset, spec: DatasetSpec, cases: Sequence[Case], path: Path, *, how: str = "") -> None:
    """Write ``cases`` of ``dataset`` to ``path``. ``how`` they were chosen is added to the name and title."""
    about = dataset.info()
    header = CaseHeader(
        name=f"{spec.name}-{how}" if how else spec.name,
        title=f"{about.title} ({how} by ke audit)" if how else about.title,
        license=about.license,
        source=about.source,
        cite=about.cite,
        styles=spec.styles,
        aspects=tuple(dict.fromkeys(probe.aspect for case in cases for probe in case.probes)),
        judge=spec.judge,
        metrics=spec.metrics,
        cases=len(cases),
        sha256=about.sha256,
    )
    write_cases(path, header, cases)
