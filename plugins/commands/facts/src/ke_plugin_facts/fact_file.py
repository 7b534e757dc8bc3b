"""The file of facts that shall hold: ``facts.toml``, JSON lines, or CSV.

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
from ke_core.plugin import BadData, Edit, SourcedEdit, canonical, digest, read_toml, to_json
from ke_weights.verify import Check, check_from, edit_checks

SETTINGS = ("model", "dtype", "editor", "seed", "out", "options", "bounds")
TABLES = ("facts", "keep")
OWN_FIELDS = ("owner", "tests")
"""Fields of a fact that an edit file does not have."""


@frozen(kw_only=True)
class ManagedFact:
    """A fact that shall hold. ``tests``: what else shall hold with it, next to its paraphrases."""

    given: SourcedEdit
    owner: str = ""
    tests: tuple[Check, ...] = ()
    place: SourceLine

    @property
    def id(self) -> str:
        """The id as written, or a digest of prompt and subject, so that a new target is a change of the same fact."""
        return self.given.edit.id

    @property
    def digest(self) -> str:
        """A digest of what the edit changes, without source, date, owner and tests."""
        return digest(to_json(self.given.edit))[:12]


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
            _test({"kind": "kept", **one}, _place(path, one, number, "keep"), f"keep-{number}")
            for number, one in enumerate(listed["keep"], 1)
        ),
        settings={key: raw[key] for key in SETTINGS if key in raw},
    )
    return _consistent(found)


def _consistent(found: FactFile) -> FactFile:
    """Return the file. Raises BadData for equal ids and contradictions."""
    if problems := (*duplicates(found.facts), *contradictions(found)):
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
    tests = raw.get("tests") or []
    if not isinstance(tests, list) or not all(isinstance(one, Mapping) for one in tests):
        raise place.wrong("tests", "is not a list of tests", hint='{ kind = "kept", prompt = "...", expect = "..." }')
    return ManagedFact(
        given=given,
        owner=text_field(raw, "owner", place),
        tests=tuple(_test(one, place, f"{given.edit.id}/test-{number}") for number, one in enumerate(tests, 1)),
        place=place,
    )


def _text(value: Any) -> Any:
    """Return a date of TOML as text, and everything else unchanged."""
    return value.isoformat() if isinstance(value, date) else value


def _test(raw: Mapping[str, Any], place: SourceLine, name: str) -> Check:
    return check_from({"id": name, **raw}, place)


def duplicates(facts: Sequence[ManagedFact]) -> Iterator[str]:
    """Yield a sentence for each fact whose id another one has."""
    seen: dict[str, ManagedFact] = {}
    for one in facts:
        other = seen.setdefault(one.id, one)
        if other is not one and (_key(one.given.edit) != _key(other.given.edit) or one.digest == other.digest):
            yield f"{one.place}: {one.id!r} is there already ({other.place})"


def contradictions(found: FactFile) -> Iterator[str]:
    """Yield a sentence for each fact that contradicts another one, a test, or a fact to keep."""
    targets: dict[tuple[str, str], ManagedFact] = {}
    for one in found.facts:
        other = targets.setdefault(_key(one.given.edit), one)
        if other.given.target != one.given.target:
            yield (
                f"{one.place}: {one.given.edit.statement!r} contradicts {other.given.edit.statement!r} ({other.place})"
            )
    prompts = {_plain(one.given.prompt): one for one in found.facts}
    for test, owner in [*((test, str(one.place)) for one in found.facts for test in one.tests), *_kept(found)]:
        fact = prompts.get(_plain(test.prompt))
        if fact is not None and _denies(test, fact.given.target):
            yield f"{fact.place}: {fact.given.edit.statement!r} contradicts a test ({owner})"


def _kept(found: FactFile) -> Iterator[tuple[Check, str]]:
    return ((test, f"{found.path}, {test.id}") for test in found.keep)


def _key(edit: Edit) -> tuple[str, str]:
    """Return what identifies the subject and the relation of an edit."""
    if edit.after is None:
        return "", _plain(edit.prompt)
    return _plain(edit.after.subject.key), _plain(edit.after.relation.key)


def _denies(test: Check, target: str) -> bool:
    """Return whether a test about a fact's own prompt expects something else than its target."""
    names = {_plain(name) for name in test.expect}
    return (bool(names) and _plain(target) not in names) or _plain(target) in {_plain(name) for name in test.wrong}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def suite_of(edited: Sequence[ManagedFact], held: Sequence[ManagedFact], keep: Sequence[Check]) -> tuple[Check, ...]:
    """Return what is verified: the edited facts with their paraphrases, all tests, and the facts to keep.

    A fact that the model holds without an edit (``held``) is one to keep.
    """
    own = [check for one in edited for check in edit_checks(one.given)]
    others = [
        Check(id=one.id, kind="kept", prompt=one.given.prompt, expect=(one.given.target,), wrong=()) for one in held
    ]
    tests = [test for one in (*edited, *held) for test in one.tests]
    return (*own, *others, *tests, *keep)


def file_digest(found: FactFile) -> str:
    """Return a digest of the facts, the tests and the facts to keep."""
    raw = [to_json(one.given.edit) for one in found.facts]
    return digest(canonical([raw, [to_json(one.tests) for one in found.facts], to_json(found.keep)]))[:12]
