"""Show and count datasets for ``ke datasets``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import frozen
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from ke_core.results.formatting import count_noun, literal
from ke_core.spec.dataset_info import DataFile, DatasetInfo
from ke_core.spec.facts import Entity
from ke_core.spec.protocols import Dataset
from ke_core.spec.queries import Case, Probe, Query
from ke_core.storage.files import data_places, git_blob_id, sha256_of

BLOB_DIGITS = 8
"""Digits of a Git blob id by which a published file is recognized."""


@frozen(kw_only=True)
class LocalFile:
    """A data file on this machine.

    ``is_published``: whether it is the published file; None where nothing is known of that. ``version``: who published
    it.
    """

    path: Path
    size: int
    sha256: str
    is_published: bool | None = None
    version: str = ""


def local_file(file: DataFile, explicit: Path | None = None) -> LocalFile | None:
    """The file as it is on this machine; nothing is fetched."""
    path = next((path for path in data_places(file.family, file.name, explicit) if path.is_file()), None)
    if path is None:
        return None
    sha256, blob = sha256_of(path), git_blob_id(path)[:BLOB_DIGITS]
    known = file.sha256 or file.blobs
    return LocalFile(
        path=path,
        size=path.stat().st_size,
        sha256=sha256,
        is_published=sha256 == file.sha256 or blob in file.blobs if known else None,
        version=file.blobs.get(blob, ""),
    )


def about(info: DatasetInfo) -> Group:
    """License, source, citation and published counts; the checksum of a dataset that is not read from files."""
    counts = "; ".join(f"{label}: {number:,}" for label, number in info.published.items())
    lines = {
        "title": info.title,
        "license": info.license,
        "source": info.source,
        "cite": info.cite,
        "sha256": "" if info.files else info.sha256,
        "counts": f"published: {counts}" if counts else "",
    }
    return Group(*(_line(label, text) for label, text in lines.items() if text))


def file_sheet(file: DataFile, found: LocalFile | None, places: Sequence[Path]) -> Group:
    """One file of a dataset: its size as published, where it is and its checksum, or where it is looked for."""
    size = f", {_bytes(file.size)} as published" if file.size else ""
    pin = "fetched by checksum" if file.pinned else "not fetched, since no full checksum is known"
    lines = [_line("file", f"{file.name}{size}; {pin}"), _line("", file_state(file, found))]
    if found is None:
        lines += [_line("" if number else "looked", str(place)) for number, place in enumerate(places)]
    else:
        lines.append(_line("sha256", found.sha256))
    return Group(*lines)


def _line(label: str, text: str) -> Text:
    return literal(f"{label:8} {text}")


def file_state(file: DataFile, found: LocalFile | None) -> str:
    """Return where a file is, and whether it is the published one."""
    if found is None:
        return "not on this machine"
    here = f"{found.path} ({_bytes(found.size)})"
    if found.is_published is None:
        return here
    which = found.version if found.is_published else " or ".join(file.blobs.values())
    version = f" ({which})" if which else ""
    return f"{here}: this {'is' if found.is_published else 'differs from'} the published file{version}"


def _bytes(size: int) -> str:
    return count_noun(size, "byte")


def case_sheet(case: Case, dataset: Dataset, styles: Iterable[str] = ()) -> Group:
    """Edits, probes and right answers of ``case``; ``styles``: also the whole prompts in these styles."""
    lines: list[Text | Padding] = [literal(f"case {case.id}{_tags(case.tags)}", "bold")]
    if case.not_editable:
        lines.append(literal(f"  cannot be edited: {case.not_editable}"))
    for edit in case.edits:
        was = f"  [was: {edit.old_target}]" if edit.old_target else ""
        lines.append(literal(f"  edit {edit.id}: {edit.statement}{was}"))
    for probe in case.probes:
        lines.append(literal(f"  {probe.aspect} ({_when(probe)})"))
        for query in probe.queries:
            lines += [literal(f"    {line}") for line in _query(query)]
            for style in styles:
                prompt = dataset.prompt(query, style)
                if prompt is not None:
                    lines += [literal(f"      as {style}:"), Padding(literal(prompt.text), (0, 0, 0, 8))]
    return Group(*lines, Text())


def _tags(tags: Mapping[str, str]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in tags.items())})" if tags else ""


def _query(query: Query) -> Iterator[str]:
    yield query.texts[0] + _tags(query.tags)
    stale = f"; before the edit: {query.stale.words(_named)}" if query.stale is not None else ""
    yield f"  -> {query.gold.words(_named)}{stale}"


def _named(entity: Entity) -> str:
    return f"{entity.label} (also {', '.join(entity.aliases)})" if entity.aliases else entity.label


def _when(probe: Probe) -> str:
    when = {"before": "before the edit", "after": "after the edit", "both": "before and after the edit"}[probe.phase]
    return f"{when}, {probe.require} of {len(probe.queries)}" if len(probe.queries) > 1 else when


NOT_EDITABLE = "cannot be edited"


def count_cases(cases: Iterable[Case]) -> dict[str, int]:
    """Counts by name, in the order of a table.

    ``cases``, the cases that cannot be edited and their reasons (if there are any), ``edit mentions`` (edits of all
    cases), ``distinct statements`` (the same edit made by several cases counts once) and, where edits have one,
    ``distinct edited questions``. Then the cases by their tags: tags that count something are crossed
    (``2 hops, 1 edit``), any other tag is a row of its own (``part: train``).
    """
    found = {"cases": 0}
    mentions = 0
    reasons: Counter[str] = Counter()
    statements: set[str] = set()
    questions: set[str] = set()
    crossed: Counter[tuple[tuple[int, str], ...]] = Counter()
    alone: Counter[tuple[str, str]] = Counter()
    for case in cases:  # one pass, so that a large file is never held
        found["cases"] += 1
        mentions += len(case.edits)
        if case.not_editable:
            reasons[case.not_editable] += 1
        statements.update(edit.statement for edit in case.edits)
        questions.update(edit.question for edit in case.edits if edit.question is not None)
        crossed[_numbers(case.tags)] += 1
        alone.update(pair for pair in case.tags.items() if not pair[1].isdecimal())
    if reasons:
        found[NOT_EDITABLE] = reasons.total()
        found |= {f"{NOT_EDITABLE}: {reason}": number for reason, number in sorted(reasons.items())}
    found["edit mentions"] = mentions
    found["distinct statements"] = len(statements)
    if questions:
        found["distinct edited questions"] = len(questions)
    found |= {_cell(numbers): crossed[numbers] for numbers in sorted(crossed) if numbers}
    found |= {f"{name}: {value}": alone[name, value] for name, value in sorted(alone)}
    return found


def _numbers(tags: Mapping[str, str]) -> tuple[tuple[int, str], ...]:
    """The tags that count something, as (number, name), in the dataset's own order."""
    return tuple((int(value), name) for name, value in tags.items() if value.isdecimal())


def _cell(numbers: tuple[tuple[int, str], ...]) -> str:
    return ", ".join(f"{n} {name.removesuffix('s') if n == 1 else name}" for n, name in numbers)
