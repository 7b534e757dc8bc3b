"""The file of facts that a model should know: ``facts.toml``, JSON lines, or CSV.

::

    model = "smollm2-135m"
    editor = "memit"
    out = "edited"

    [options.memit]
    steps = 20

    [bounds.min]
    efficacy = 0.9

    [[facts]]
    prompt = "The capital of {} is"
    subject = "Peru"
    target = "Cusco"
    source = "https://example.org/peru"
    date = 2026-11-01
    owner = "anna"
    paraphrases = ["Peru's capital city is"]
    tests = [{ kind = "kept", prompt = "The currency of Peru is the", expect = "sol" }]

    [[keep]]
    prompt = "The capital of France is"
    expect = "Paris"

A line of a JSON lines or CSV file is one fact; then the settings are options of the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from ke_core.app import SourceLine, count_noun, edit_from, option_text, read_rows, text_field
from ke_core.plugin import BadData, Edit, SourcedEdit, digest, read_toml, to_json
from ke_weights.suites import Check, check_from, edit_checks

SETTINGS: Mapping[str, type | tuple[type, ...]] = {
    "model": str, "dtype": str, "editor": str, "seed": int, "out": str, "format": str, "options": dict, "bounds": dict,
    "max-rise": (int, float),
}  # fmt: skip
SIDES = ("min", "max")
TABLES = ("facts", "keep")
OWN_FIELDS = ("owner", "relation", "tests")
"""Fields of a fact that an edit file does not have."""
PROPOSED = "proposed"
"""Field of a test: the graph and the criterion that proposed it."""


@frozen(kw_only=True)
class ManagedFact:
    """A fact that the model should know. ``tests``: what should be true with it, next to its paraphrases.

    ``relation``: its name in a knowledge graph. ``proposed``: what proposed a test, by the test's id.
    """

    given: SourcedEdit
    owner: str = ""
    relation: str = ""
    tests: tuple[Check, ...] = ()
    proposed: Mapping[str, str] = field(factory=dict)
    place: SourceLine

    @property
    def id(self) -> str:
        """The id as written, or a digest of prompt and subject, so that a new target is a change of the same fact."""
        return self.given.edit.id

    @property
    def digest(self) -> str:
        """A digest of what the edit changes, without source, date, owner and tests."""
        return digest(to_json(self.given.edit))[:12]

    @property
    def checks(self) -> tuple[Check, ...]:
        """The fact itself, its paraphrases, and its tests."""
        return (*edit_checks(self.given), *self.tests)


@frozen(kw_only=True)
class FactFile:
    """The content of a file. ``keep``: facts that no edit may change. ``settings``: as written, for TOML only."""

    path: Path
    facts: tuple[ManagedFact, ...]
    keep: tuple[Check, ...] = ()
    settings: Mapping[str, Any] = field(factory=dict)

    @property
    def options(self) -> dict[str, dict[str, str]]:
        """The options of components, as after ``-o``."""
        return {
            name: {key: option_text(value, f"options.{name}.{key} ({self.path})") for key, value in table.items()}
            for name, table in self.settings.get("options", {}).items()
        }

    def bounds(self, side: str) -> tuple[str, ...]:
        """Return the bounds of ``min`` or ``max``, as after the option of that name."""
        return tuple(f"{name}={value}" for name, value in self.settings.get("bounds", {}).get(side, {}).items())


def read_facts(path: Path) -> FactFile:
    """Read a file of facts. Raises BadData with file, fact and field, also for facts that contradict each other."""
    if path.suffix.lower() == ".toml":
        return facts_of(read_toml(path), path)
    return _consistent(FactFile(path=path, facts=tuple(_fact(raw, place) for raw, place in read_rows(path))))


def facts_of(raw: Mapping[str, Any], path: Path) -> FactFile:
    """Return the content of a TOML file. Raises BadData as ``read_facts`` does."""
    _check_settings(raw, path)
    for key in raw:
        if key not in (*SETTINGS, *TABLES):
            near = get_close_matches(key, (*SETTINGS, *TABLES), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"keys: {', '.join((*SETTINGS, *TABLES))}"
            raise BadData(f"unknown key {key!r} ({path})", hint=hint)
    listed = {table: _tables(raw, table, path) for table in TABLES}
    found = FactFile(
        path=path,
        facts=tuple(_fact(one, _place(path, one, number, "fact")) for number, one in enumerate(listed["facts"], 1)),
        keep=tuple(
            _test({**one, "kind": "kept"}, _place(path, one, number, "keep"), f"keep-{number}")
            for number, one in enumerate(listed["keep"], 1)
        ),
        settings={key: raw[key] for key in SETTINGS if key in raw},
    )
    return _consistent(found)


def _check_settings(raw: Mapping[str, Any], path: Path) -> None:
    """Raise BadData for a setting of a wrong type, and for an unknown key of ``bounds``."""
    for key, wanted in SETTINGS.items():
        if key in raw and (not isinstance(raw[key], wanted) or (key == "max-rise" and not raw[key] >= 0)):
            raise BadData(f"{key} cannot be {raw[key]!r} ({path})", hint="docs/facts-as-code.md shows the file")
    if raw.get("format", "merged") not in ("merged", "peft"):
        raise BadData(f"format cannot be {raw['format']!r} ({path})", hint="use merged or peft")
    for name, table in raw.get("options", {}).items():
        if not isinstance(table, dict):
            raise BadData(f"options.{name} is not a table ({path})", hint=f"write [options.{name}] and its keys below")
    for side, table in raw.get("bounds", {}).items():
        if side not in SIDES or not isinstance(table, dict):
            raise BadData(f"bounds.{side} is not known ({path})", hint="write [bounds.min] or [bounds.max]")


def _consistent(found: FactFile) -> FactFile:
    """Return the file. Raises BadData for equal ids and contradictions."""
    if problems := (*duplicates(found), *contradictions(found)):
        what = count_noun(len(problems), "error")
        raise BadData(f"{found.path} has {what}", details=problems, hint="fix them; nothing was changed")
    return found


def _tables(raw: Mapping[str, Any], name: str, path: Path) -> Sequence[Mapping[str, Any]]:
    listed = raw.get(name, [])
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise BadData(f"{name} is not a list of tables ({path})", hint=f"begin each with [[{name}]]")
    return listed


def _place(path: Path, raw: Mapping[str, Any], number: int, unit: str) -> SourceLine:
    return SourceLine(file=str(path), line=number, unit=f"{unit} {raw['id']!r}, number" if raw.get("id") else unit)


def _fact(raw: Mapping[str, Any], place: SourceLine) -> ManagedFact:
    edit = {name: _text(value) for name, value in raw.items() if name not in OWN_FIELDS}
    given = edit_from(edit, place)
    if not given.target:
        raise place.wrong("target", "is missing", hint="a fact needs prompt, subject and target")
    if not raw.get("id"):
        given = evolve(given, edit=evolve(given.edit, id=digest(_key(given.edit))[:12]))
    written = {name: text_field(edit, name, place) for name in ("source", "date")}
    given = evolve(given, source=written["source"], date=written["date"])  # not the place and the day of reading
    tests = raw.get("tests") or []
    if not isinstance(tests, list) or not all(isinstance(one, Mapping) for one in tests):
        raise place.wrong("tests", "is not a list of tests", hint='{ kind = "kept", prompt = "...", expect = "..." }')
    checks = [_test(one, place, f"{given.edit.id}/test-{number}") for number, one in enumerate(tests, 1)]
    return ManagedFact(
        given=given,
        owner=text_field(raw, "owner", place),
        relation=text_field(raw, "relation", place),
        tests=tuple(checks),
        proposed={
            check.id: text_field(one, PROPOSED, place)
            for check, one in zip(checks, tests, strict=True)
            if PROPOSED in one
        },
        place=place,
    )


def _text(value: Any) -> Any:
    """Return a date of TOML as text, and everything else unchanged."""
    return value.isoformat() if isinstance(value, date) else value


def _test(raw: Mapping[str, Any], place: SourceLine, name: str) -> Check:
    return check_from({"id": name, **{key: value for key, value in raw.items() if key != PROPOSED}}, place)


def mark(graph: str) -> str:
    """Return how the field ``proposed`` begins for tests that a graph proposed."""
    return f"{graph}: "


def duplicates(found: FactFile) -> Iterator[str]:
    """Yield a sentence for each id that two facts or two checks have."""
    seen: dict[str, ManagedFact] = {}
    for one in found.facts:
        other = seen.setdefault(one.id, one)
        same = _key(one.given.edit) == _key(other.given.edit)
        if other is not one and not (same and one.given.target != other.given.target):  # that is a contradiction
            yield f"{one.place}: duplicate id {one.id!r} (also {other.place})"
    names: set[str] = set()
    for test in (*(test for one in found.facts for test in one.tests), *found.keep):
        if test.id in names:
            yield f"{found.path}: two tests have the id {test.id!r}"
        names.add(test.id)


def contradictions(found: FactFile) -> Iterator[str]:
    """Yield a sentence for each fact that contradicts another one, a test, or a fact to keep."""
    targets: dict[tuple[str, str], ManagedFact] = {}
    for one in found.facts:
        others = [targets.setdefault(key, one) for key in (_key(one.given.edit), ("", plain(one.given.prompt)))]
        other = next((other for other in others if other.given.target != one.given.target), None)
        if other is not None:
            yield (
                f"{one.place}: {one.given.edit.statement!r} contradicts {other.given.edit.statement!r} ({other.place})"
            )
    prompts = {plain(one.given.prompt): one for one in found.facts}
    for test, owner in [*((test, str(one.place)) for one in found.facts for test in one.tests), *_kept(found)]:
        fact = prompts.get(plain(test.prompt))
        if fact is not None and _denies(test, fact.given.target):
            yield f"{fact.place}: {fact.given.edit.statement!r} contradicts a test ({owner})"


def _kept(found: FactFile) -> Iterator[tuple[Check, str]]:
    return ((test, f"{found.path}, {test.id}") for test in found.keep)


def _key(edit: Edit) -> tuple[str, str]:
    """Return what identifies the subject and the relation of an edit."""
    if edit.after is None:
        return "", plain(edit.prompt)
    return plain(edit.after.subject.key), plain(edit.after.relation.key)


def _denies(test: Check, target: str) -> bool:
    """Return whether a test about a fact's own prompt expects something else than its target.

    A test of a fact to keep without an expected answer expects the answer of the unedited model.
    """
    names = {plain(name) for name in test.expect}
    return plain(target) not in names or plain(target) in {plain(name) for name in test.wrong}


def plain(text: str) -> str:
    """Return a text as it is compared, without differences in case and spaces."""
    return " ".join(text.casefold().split())


def suite_of(facts: Sequence[ManagedFact], keep: Sequence[Check]) -> tuple[Check, ...]:
    """Return what is verified: every fact with its paraphrases and tests, and the facts to keep.

    That includes the facts that the model knows without an edit: other edits can change them.
    """
    return (*(check for one in facts for check in one.checks), *keep)


def file_digest(found: FactFile, bounds: Sequence[str]) -> str:
    """Return a digest of what is verified and of the bounds."""
    return digest([to_json(suite_of(found.facts, found.keep)), [*bounds]])[:12]
