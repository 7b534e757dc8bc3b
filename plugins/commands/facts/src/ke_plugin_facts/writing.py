"""Add a fact to ``facts.toml``. Comments, order and spacing of the file stay."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import tomlkit
from tomlkit.items import Array

from ke_core.plugin import BadData, write_atomic
from ke_plugin_facts.fact_file import facts_of, read_facts
from ke_weights.sentences import edit_from_sentence


def add_fact(path: Path, sentence: str, fields: Mapping[str, str]) -> str:
    """Append the fact of a sentence, and return its statement. ``fields``: subject, source, date and owner.

    Raises BadData for a file that is not TOML, and for a fact that it contains or contradicts; then the file is
    unchanged.
    """
    if path.suffix.lower() != ".toml":
        raise BadData(f"{path} is not a TOML file", hint="write JSON lines and CSV with your own editor")
    given = edit_from_sentence(sentence, fields["subject"].strip(), "")
    cloze = given.edit.cloze
    assert cloze is not None
    day = _date(fields["date"])
    if path.exists():
        read_facts(path)  # raises for a file that cannot be read
    document = tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else tomlkit.document()
    facts = document.setdefault("facts", tomlkit.aot())
    in_brackets = isinstance(facts, Array)
    table = tomlkit.inline_table() if in_brackets else tomlkit.table()
    table.update({"prompt": cloze.template.rstrip(), "subject": cloze.subject, "target": given.target})
    for name, value in (("source", fields["source"]), ("date", day), ("owner", fields["owner"])):
        if value:
            table[name] = value
    if not in_brackets:
        table.add(tomlkit.nl())
    facts.append(table)
    facts_of(document.unwrap(), path)
    write_atomic(path, tomlkit.dumps(document).encode())
    return given.edit.statement


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise BadData(f"--date {text} is not a date", hint="write --date 2026-01-31") from error
