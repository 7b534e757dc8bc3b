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

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from ke_core.app import FIELD_NAMES, SourceLine, count_noun, edit_from, option_text, read_rows, text_field
from ke_core.plugin import BadData, Edit, SourcedEdit, canonical, did_you_mean, digest, read_toml, to_json
from ke_plugin_facts.file_settings import SETTINGS, check_settings
from ke_weights.suites import Check, check_from, edit_checks

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
    """The content of a file. ``keep``: facts whose answers are checked after editing.

    ``lists_facts``: it has a list of facts, which can be empty. ``settings``: as written, for TOML only.
    """

    path: Path
    facts: tuple[ManagedFact, ...]
    lists_facts: bool
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
    if not path.exists():
        raise BadData(f"{path} does not exist", hint="make it with ke facts add, or give the path of your file")
    if path.suffix.lower() == ".toml":
        return facts_of(read_toml(path), path)
    facts = tuple(_fact(raw, place) for raw, place in read_rows(path))
    return _consistent(FactFile(path=path, facts=facts, lists_facts=bool(facts)))


def facts_of(raw: Mapping[str, Any], path: Path) -> FactFile:
    """Return the content of a TOML file. Raises BadData as ``read_facts`` does."""
    raw = _without_dates(raw)
    check_settings(raw, path)
    for key in raw:
        if key not in (*SETTINGS, *TABLES):
            known = (*SETTINGS, *TABLES)
            hint = did_you_mean(key, known, f"keys: {', '.join(known)}")
            raise BadData(f"unknown key {key!r} ({path})", hint=hint)
    listed = {table: _tables(raw, table, path) for table in TABLES}
    found = FactFile(
        path=path,
        facts=tuple(_fact(one, _place(path, one, number, "fact")) for number, one in enumerate(listed["facts"], 1)),
        keep=tuple(
            _test({**one, "kind": "kept"}, _place(path, one, number, "keep"), f"keep-{number}")
            for number, one in enumerate(listed["keep"], 1)
        ),
        lists_facts="facts" in raw,
        settings={key: raw[key] for key in SETTINGS if key in raw},
    )
    return _consistent(found)


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
    given = edit_from(raw, place, OWN_FIELDS)
    written = {FIELD_NAMES[name]: value for name, value in raw.items() if name in FIELD_NAMES and value}
    if not given.target:
        raise place.wrong("target", "is missing", hint="a fact needs prompt, subject and target")
    if "id" not in written:
        given = evolve(given, edit=evolve(given.edit, id=digest(_key(given.edit))[:12]))
    # Not the place and the day of reading, which an edit without them gets.
    source, day = (text_field(written, name, place) for name in ("source", "date"))
    given = evolve(given, source=source, date=day)
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


def _without_dates(value: Any) -> Any:
    """Return a value of TOML with dates and times as text."""
    if isinstance(value, dict):
        return {name: _without_dates(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_dates(each) for each in value]
    return value.isoformat() if isinstance(value, (date, time)) else value


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
    ids = Counter(check.id for check in suite_of(tuple(seen.values()), found.keep))
    yield from (f"{found.path}: {count} checks have the id {id_!r}" for id_, count in ids.items() if count > 1)


def contradictions(found: FactFile) -> Iterator[str]:
    """Yield a sentence for each fact or test that contradicts another fact, a test, or a fact to keep."""
    targets: dict[tuple[str, str], ManagedFact] = {}
    for one in found.facts:
        prompts = [("", plain(prompt)) for prompt in (one.given.prompt, *one.given.paraphrases)]
        others = [targets.setdefault(key, one) for key in (_key(one.given.edit), *prompts)]
        other = next((other for other in others if other.given.target != one.given.target), None)
        if other is not None:
            yield (
                f"{one.place}: {one.given.edit.statement!r} contradicts {other.given.edit.statement!r} ({other.place})"
            )
    for test, owner in [*((test, str(one.place)) for one in found.facts for test in one.tests), *_kept(found)]:
        fact = targets.get(("", plain(test.prompt)))
        if fact is not None and _denies(test, fact.given.target):
            expected = " or ".join(map(repr, test.expect)) or "the answer of the unedited model"
            tested = f"a test, {test.prompt!r} => {expected} ({owner})"
            yield f"{fact.place}: {fact.given.edit.statement!r} contradicts {tested}"
    yield from _contradicting_tests(found)


def _contradicting_tests(found: FactFile) -> Iterator[str]:
    """Yield a sentence for each two tests of one prompt that no answer passes.

    Proposed tests do not count: ``ke facts expand`` replaces them.
    """
    written = ((test, str(one.place)) for one in found.facts for test in one.tests if test.id not in one.proposed)
    seen: dict[str, tuple[Check, str]] = {}
    for test, owner in (*written, *_kept(found)):
        other, place = seen.setdefault(plain(test.prompt), (test, owner))
        if test.expect and other.expect and all(_denies(other, name) for name in test.expect):
            yield f"{owner}: the test {test.prompt!r} contradicts another one ({place})"


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


def require_facts(file: FactFile) -> None:
    """Raise BadData if a file has no list of facts."""
    if not file.lists_facts:
        raise BadData(f"{file.path} lists no facts", hint="for a model without edits, write facts = []")


def suite_of(facts: Sequence[ManagedFact], keep: Sequence[Check]) -> tuple[Check, ...]:
    """Return what is verified: every fact with its paraphrases and tests, and the facts to keep.

    That includes the facts that the model knows without an edit: other edits can change them.
    """
    return (*(check for one in facts for check in one.checks), *keep)


def file_digest(found: FactFile, bounds: Sequence[str]) -> str:
    """Return a digest of what is verified and of the bounds. The order has no effect."""
    checks = [canonical(to_json(evolve(one, id=""))) for one in suite_of(found.facts, found.keep)]
    return digest([sorted(checks), sorted(bounds)])[:12]
