"""Training examples from a file or an installed dataset, and which of them must be left out.

A file holds JSON records, one a line or all in one array, in either of two forms::

    {"prompt": "{} speaks the language of", "subject": "Ada", "target": "French",
     "paraphrases": ["Which language does Ada speak?"], "locality": ["Bo speaks the language of"]}
    {"edit": "Ada speaks the language of French", "questions": ["Which language does Ada speak?"]}

The second is a bare statement (PokeMQA publishes its detector's data so). It is taken apart by the clozes that the
rest of the command line brings, where one fits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from ke_core.data.codec import digest
from ke_core.data.facts import SLOT, Cloze, Edit, Entity, Fact, Relation
from ke_core.data.training import TrainingExample
from ke_core.errors import BadData
from ke_core.plugins.catalog import Catalog
from ke_core.protocols import Dataset
from ke_core.run.components import DATA_DIR, Options, choose, with_flag

FORM = 'a record is {"prompt": "... {} ...", "subject", "target", "paraphrases"} or {"edit", "questions"}'


def read_examples(source: str, catalog: Catalog, options: Options, data_dir: str = "") -> list[TrainingExample]:
    """The examples of a JSON file, else of the dataset of that name. Raises BadData, UnknownComponent."""
    path = Path(source).expanduser()
    if path.is_file():
        return [_example(record, f"{source}, record {number}") for number, record in enumerate(_records(path), start=1)]
    if path.suffix or path.exists():
        raise BadData(f"there is no file {source} to train on", hint=f"give a JSON file or a dataset's name; {FORM}")
    spec = catalog.spec("dataset", source)
    dataset: Dataset = choose(catalog, "dataset", source, with_flag(spec, options, DATA_DIR, data_dir)).build()
    return list(_of_dataset(dataset))


def usable(examples: Iterable[TrainingExample], without: Sequence[TrainingExample]) -> tuple[TrainingExample, ...]:
    """Each distinct edit once, none that is in ``without``, bare statements taken apart where a cloze fits.

    In ``without`` is an edit that shares its statement, its prompt (so that another object for the same subject and
    relation is out too) or one of its questions with an edit there.
    """
    given = list(examples)
    clozes = [example.edit.cloze for example in (*without, *given) if example.edit.cloze]
    take_apart = _Splitter(dict.fromkeys(cloze.template for cloze in clozes))
    banned = {word for example in without for word in _marks(example)}
    found: dict[str, TrainingExample] = {}
    for example in map(take_apart, given):
        if banned.isdisjoint(_marks(example)):
            found.setdefault(example.edit.statement, example)
    return tuple(found.values())


def _marks(example: TrainingExample) -> Iterator[str]:
    edit = example.edit
    yield edit.statement.casefold()
    if edit.cloze is not None:
        yield edit.cloze.prompt.casefold()
    yield from (text.casefold() for text in example.paraphrases)


class _Splitter:
    """Finds subject and object in a statement by the templates of known clozes, the most telling first."""

    def __init__(self, templates: Iterable[str]) -> None:
        ordered = sorted(templates, key=lambda template: (-len(template), template))
        self.patterns = [
            (template, re.compile(re.escape(template).replace(re.escape(SLOT), "(.+)") + " (.+)"))
            for template in ordered
        ]

    def __call__(self, example: TrainingExample) -> TrainingExample:
        if example.edit.cloze is not None:
            return example
        for template, pattern in self.patterns:
            if found := pattern.fullmatch(example.edit.statement):
                subject, target = found.groups()
                edit = _edit(Cloze(template=template, subject=subject), target)
                return evolve(example, edit=evolve(edit, id=example.edit.id))
        return example


def _of_dataset(dataset: Dataset) -> Iterator[TrainingExample]:
    for case in dataset.cases():
        asked: dict[str, list[str]] = {edit.id: [edit.question] if edit.question else [] for edit in case.edits}
        for query in (query for probe in case.probes for query in probe.queries):
            if query.edit in asked and query.form == "question":
                asked[query.edit] += query.texts
        for edit in case.edits:
            yield TrainingExample(edit=edit, paraphrases=tuple(dict.fromkeys(asked[edit.id])))


def _records(path: Path) -> Iterator[Any]:
    """Every record of a JSON array, or of a file of JSON lines."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(f"cannot read {path}: {error}", hint="give a JSON file in UTF-8") from error
    if text.lstrip().startswith("["):
        try:
            yield from json.loads(text)
        except ValueError as error:
            raise BadData(f"{path} is not JSON: {error}", hint=FORM) from error
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise BadData(f"{path}, line {number} is not JSON: {error}", hint=FORM) from error


def _example(record: Any, where: str) -> TrainingExample:
    if not isinstance(record, Mapping):
        raise BadData(f"{where} is not a record but {type(record).__name__}", hint=FORM)
    paraphrases = _texts(record, "paraphrases", where) + _texts(record, "questions", where)
    locality = _texts(record, "locality", where)
    if "edit" in record:
        statement = _text(record, "edit", where)
        edit = Edit(id=digest(statement)[:16], statement=statement)
    else:
        prompt, subject, target = (_text(record, name, where) for name in ("prompt", "subject", "target"))
        template = prompt if SLOT in prompt else prompt.replace(subject, SLOT, 1)
        if template.count(SLOT) != 1:
            raise BadData(f"{where}: its prompt names neither {{}} nor its subject {subject!r} once", hint=FORM)
        edit = _edit(Cloze(template=template.rstrip(), subject=subject), target)
    return TrainingExample(edit=edit, paraphrases=paraphrases, locality=locality)


def _edit(cloze: Cloze, target: str) -> Edit:
    statement = f"{cloze.prompt} {target}"
    relation = Relation(label=cloze.template, cloze=cloze.template)
    fact = Fact(subject=Entity(label=cloze.subject), relation=relation, objects=(Entity(label=target),))
    return Edit(id=digest(statement)[:16], statement=statement, after=fact, cloze=cloze)


def _text(record: Mapping[str, Any], name: str, where: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadData(f"{where} has no text in {name!r}", hint=FORM)
    return value.strip()


def _texts(record: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    value = record.get(name, [])
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise BadData(f"{where}: {name!r} is not a list of texts", hint=FORM)
    return tuple(text.strip() for text in value)
