"""Add facts and proposed tests to ``facts.toml``. Comments, order and spacing of the file stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.items import AoT, Array

from ke_core.plugin import BadData, write_atomic
from ke_plugin_facts.fact_file import PROPOSED, FactFile, facts_of, mark, read_facts
from ke_weights.sentences import edit_from_sentence

if TYPE_CHECKING:  # torch
    from ke_plugin_facts.expanding import ProposedTest


def add_fact(path: Path, sentence: str, fields: Mapping[str, str]) -> str:
    """Append the fact of a sentence, and return its statement. ``fields``: subject, source, date and owner.

    Raises BadData for a file that is not TOML, and for a fact that it contains or contradicts; then the file is
    unchanged.
    """
    require_toml(path)
    given = edit_from_sentence(sentence, fields["subject"].strip(), "")
    cloze = given.edit.cloze
    assert cloze is not None
    day = _date(fields["date"])
    if path.exists():
        read_facts(path)  # raises for a file that cannot be read
    document: Any = _document(path) if path.exists() else tomlkit.document()
    facts = document.setdefault("facts", tomlkit.aot())
    in_brackets = isinstance(facts, Array)
    table = tomlkit.inline_table() if in_brackets else tomlkit.table()
    table.update({"prompt": cloze.template.rstrip(), "subject": cloze.subject, "target": given.target})
    for name, value in (("source", fields["source"]), ("date", day), ("owner", fields["owner"])):
        if value:
            table[name] = value
    tail: list[Any] = []  # comments after the last fact are about what follows the facts
    if not in_brackets:
        table.add(tomlkit.nl())
        tail = _cut_tail(_last_table(facts[-1])) if facts else []
    facts.append(table)
    if tail:
        facts[-1].value.body.extend(tail)
    facts_of(document.unwrap(), path)
    _write(path, document)
    return given.edit.statement


def write_proposals(file: FactFile, tests: Sequence[ProposedTest], graph: str) -> tuple[int, int]:
    """Write the tests that a graph proposes into the facts of a TOML file. ``file``: as it was when they were proposed.

    Tests that the graph proposed earlier and does not propose now are removed. Returns the counts of added and removed
    tests. Raises BadData for a file that was changed meanwhile, or that the tests would contradict; then the file is
    unchanged.
    """
    path = file.path
    document = _document(path)
    if facts_of(document.unwrap(), path) != file:
        raise BadData(f"{path} was changed while the tests were proposed", hint="run the same command again")
    wanted = defaultdict[int, list[dict[str, Any]]](list)
    for test in tests:
        wanted[test.fact].append(test.fields(graph))
    added = removed = 0
    for at, fact in enumerate(document.get("facts", ())):
        new, lost = _replace(fact, wanted[at], mark(graph))
        added, removed = added + new, removed + lost
    facts_of(document.unwrap(), path)
    if added or removed:
        _write(path, document)
    return added, removed


def _document(path: Path) -> Any:
    """Parse a TOML file, with or without a byte order mark."""
    return tomlkit.parse(path.read_bytes().decode("utf-8-sig"))


def _write(path: Path, document: Any) -> None:
    """Write a TOML file, with the line ends that it has."""
    text = tomlkit.dumps(document).replace("\r\n", "\n")
    if path.exists() and b"\r\n" in path.read_bytes():
        text = text.replace("\n", "\r\n")
    write_atomic(path, text.encode())


def _replace(fact: Any, tests: Sequence[Mapping[str, Any]], ours: str) -> tuple[int, int]:
    """Replace the tests of a fact whose field ``proposed`` begins with ``ours``, except those that are proposed again.

    Returns the counts of added and removed tests.
    """
    listed = fact.get("tests", ())
    old = [(at, test.unwrap()) for at, test in enumerate(listed) if str(test.get(PROPOSED, "")).startswith(ours)]
    outdated = [at for at, test in old if test not in tests]
    missing = [test for test in tests if test not in [known for _at, known in old]]
    if not (outdated or missing):
        return 0, 0
    tail = _cut_tail(_last_table(fact))
    for at in reversed(outdated):
        tail = _delete(listed, at) + tail
    if "tests" in fact and not listed:
        fact.remove("tests")
    if missing:
        _append(fact, missing)
    _last_table(fact).value.body.extend(tail)
    return len(missing), len(outdated)


def _delete(tests: Any, at: int) -> list[Any]:
    """Delete a test. The comments after it are above the next test in the file, and move to it.

    Returns the comments if there is no next test.
    """
    comments = _cut_tail(tests[at]) if isinstance(tests, AoT) else []
    del tests[at]
    if at == len(tests):
        return comments
    tests[at].trivia.indent = "".join(one.as_string() for _key, one in comments) + tests[at].trivia.indent
    return []


def _append(fact: Any, tests: Sequence[Mapping[str, Any]]) -> None:
    """Append tests to a fact."""
    if "tests" not in fact:
        fact.add("tests", tomlkit.array())
    listed = fact["tests"]
    for test in tests:
        row = tomlkit.table() if isinstance(listed, AoT) else tomlkit.inline_table()
        row.update(test)
        if isinstance(listed, AoT):
            listed[-1].add(tomlkit.nl())
        else:
            listed.multiline(multiline=True)
        listed.append(row)


def _last_table(fact: Any) -> Any:
    """Return the last table of a fact in the file: its last test, or the fact itself."""
    tests = fact.get("tests", ())
    return tests[-1] if isinstance(tests, AoT) else fact


def _cut_tail(table: Any) -> list[Any]:
    """Remove the blank lines and comments after the last key of a table, and return them."""
    body = table.value.body
    end = 1 + max(at for at, (key, _item) in enumerate(body) if key is not None)
    tail: list[Any] = body[end:]
    del body[end:]
    return tail


def require_toml(path: Path) -> None:
    """Raise BadData for a file that is not TOML."""
    if path.suffix.lower() != ".toml":
        raise BadData(f"{path} is not a TOML file", hint="write JSON lines and CSV with your own editor")


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise BadData(f"--date {text} is not a date", hint="write --date 2026-01-31") from error
