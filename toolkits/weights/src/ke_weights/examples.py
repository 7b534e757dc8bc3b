"""Training examples from a file or an installed dataset, and which of them to exclude.

A file of examples is a file of edits (``edit_files``), optionally with prompts whose predictions must not change::

    {"prompt": "{} speaks the language of", "subject": "Ada", "target": "French",
     "paraphrases": ["Which language does Ada speak?"], "locality": ["Bo speaks the language of"]}

or of statements, as PokeMQA publishes its detector's data::

    {"edit": "Ada speaks the language of French", "questions": ["Which language does Ada speak?"]}

A statement is split by the clozes of the datasets on the command line, if one fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from ke_core.app import Catalog, Options, SourceLine, edit_from, read_rows, resolve_component, text_field, texts_field
from ke_core.plugin import SLOT, BadData, Dataset, Edit, digest
from ke_weights.trainers import TrainingExample

FORM = 'a line is {"prompt": "... {} ...", "subject", "target", "paraphrases"} or {"edit", "questions"}'


def read_examples(source: str, catalog: Catalog, options: Options) -> list[TrainingExample]:
    """Return the examples of a file, else of the dataset of that name. Raises BadData, UnknownComponent."""
    path = Path(source).expanduser()
    if path.is_file():
        return [_example(raw, place) for raw, place in read_rows(path)]
    if source not in catalog.names("dataset") and (path.suffix or path.exists()):  # a folder may have a dataset's name
        raise BadData(f"training data not found: {source}", hint=f"use a file or the name of a dataset; {FORM}")
    dataset: Dataset = resolve_component(catalog, "dataset", source, options).build()
    return list(_of_dataset(dataset))


def usable(examples: Iterable[TrainingExample], without: Sequence[TrainingExample]) -> tuple[TrainingExample, ...]:
    """Return each distinct edit once, without those in ``without``, with statements split if a cloze fits.

    An edit is in ``without`` if an edit there has the same statement, the same prompt (even with another object) or one
    of its questions.
    """
    given = list(examples)
    clozes = [example.edit.cloze for example in (*without, *given) if example.edit.cloze]
    split = _Splitter(dict.fromkeys(cloze.template for cloze in clozes))
    banned = {word for example in without for word in _marks(example)}
    found: dict[str, TrainingExample] = {}
    for example in map(split, given):
        if banned.isdisjoint(_marks(example)):
            found.setdefault(example.edit.statement, example)
    return tuple(found.values())


def _marks(example: TrainingExample) -> Iterator[str]:
    edit = example.edit
    yield edit.statement.casefold()
    if edit.prompt:
        yield edit.prompt.casefold()
    yield from (text.casefold() for text in example.paraphrases)


class _Splitter:
    """Finds subject and object in a statement with the templates of known clozes, longest first."""

    def __init__(self, templates: Iterable[str]) -> None:
        ordered = sorted(templates, key=lambda template: (-len(template), template))
        self.patterns = [
            (template, re.compile(re.escape(template).replace(re.escape(SLOT), "(.+)") + " (.+)"))
            for template in ordered
        ]

    def __call__(self, example: TrainingExample) -> TrainingExample:
        if example.edit.prompt:
            return example
        for template, pattern in self.patterns:
            if found := pattern.fullmatch(example.edit.statement):
                subject, target = found.groups()
                raw = {"prompt": template, "subject": subject, "target_new": target, "id": example.edit.id}
                return evolve(example, edit=edit_from(raw, SourceLine(file=example.edit.statement)).edit)
        return example


def _of_dataset(dataset: Dataset) -> Iterator[TrainingExample]:
    for case in dataset.cases():
        questions: dict[str, list[str]] = {edit.id: [edit.question] if edit.question else [] for edit in case.edits}
        for query in (query for probe in case.probes for query in probe.queries):
            if query.edit in questions and query.form == "question":
                questions[query.edit] += query.texts
        for edit in case.edits:
            yield TrainingExample(edit=edit, paraphrases=tuple(dict.fromkeys(questions[edit.id])))


def _example(raw: Mapping[str, Any], place: SourceLine) -> TrainingExample:
    questions = texts_field(raw, "questions", place)
    if "edit" in raw:
        statement = text_field(raw, "edit", place, needed=True)
        edit = Edit(id=digest(statement)[:16], statement=statement)
        return TrainingExample(edit=edit, paraphrases=texts_field(raw, "paraphrases", place) + questions)
    measured = isinstance(raw.get("locality"), Mapping)  # EasyEdit's format, with answers
    kept = () if measured else texts_field(raw, "locality", place)
    made = edit_from({name: value for name, value in raw.items() if name not in ("questions", "locality")}, place)
    return TrainingExample(edit=made.edit, paraphrases=made.paraphrases + questions, locality=kept)
