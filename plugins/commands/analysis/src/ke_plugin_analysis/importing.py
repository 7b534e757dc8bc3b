"""``ke import FILE``: write external predictions as a run, then judge and score it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from attrs import field, frozen

from ke_core.app import (
    DATA_DIR,
    IMPORTED,
    OWN,
    UNEDITED_BATCH,
    Batch,
    Catalog,
    Component,
    DataRef,
    ModelRef,
    Options,
    Plan,
    Record,
    Replied,
    RunFolder,
    RunSpec,
    StoredCases,
    build_metrics,
    judge_and_metrics,
    judge_run,
    metrics_of,
    open_judge,
    queries_of,
    reject_unused,
    resolve_component,
    score_run,
    with_flag,
)
from ke_core.plugin import Answer, BadData, Case, DatasetSpec, Failure, Form, Phase, Reply, distinct, sha256_of
from ke_plugin_analysis.observations import aspects_of
from ke_plugin_analysis.predictions import Prediction, read_predictions

MISSING = "Missing"
"""The error of a reply whose answer is missing in the file."""
ABSENT = "absent"
Unit = tuple[str, Phase, str]
"""Case, phase, style."""


@frozen(kw_only=True)
class ImportRequest:
    """``missing``: skip the unanswered questions of a case in the file, or count them as wrong.

    ``model``: the name of the model, for reports. ``edited_form``: the form of the prompt for an edited fact.
    ``judge``: empty for the dataset's default. ``options``: of the dataset, the judge and its metrics.
    """

    file: Path
    dataset: str
    model: str = ""
    options: Options = field(factory=dict)
    data_dir: str = ""
    judge: str = ""
    edited_form: Form = "question"
    missing: Literal["skip", "wrong"] = "skip"


@frozen(kw_only=True)
class ImportedRun:
    """An imported run. ``answers``, ``left_out`` (questions) and ``absent`` (cases) are counts."""

    folder: RunFolder
    answers: int
    left_out: int
    absent: int


def import_file(request: ImportRequest, catalog: Catalog, out: Path) -> list[ImportedRun]:
    """Write a run to ``out``, judge it and score it. With several editors, each gets a subfolder of ``out``.

    Importing the same file again resumes an interrupted import. Raises BadData that names file and line, BadRun for a
    folder with another run. Nothing is written before the whole file has been read.
    """
    spec = catalog.spec("dataset", request.dataset)
    options = with_flag(spec, request.options, DATA_DIR, request.data_dir)
    data = resolve_component(catalog, "dataset", request.dataset, options)
    assert isinstance(data.spec, DatasetSpec)
    judging, metrics = judge_and_metrics(
        catalog,
        data.spec.for_config(data.config),
        options,
        judge=request.judge,
        metrics=metrics_of(catalog, request.judge),
    )
    reject_unused(options, [data.spec, judging.spec, *(metric.spec for metric in metrics)])
    dataset, judge, measures = data.build(), open_judge(judging, catalog, None), build_metrics(metrics)
    cases = {case.id: case for case in StoredCases(dataset, request.dataset)}
    read = read_predictions(request.file, cases, data.spec)
    known = DataRef(component=data.component, sha256=dataset.info().sha256)
    editors = list(dict.fromkeys(one.editor for one in read))
    places = _places(editors, out)
    found = []
    for editor in editors:
        made = _Import(request=request, cases=cases, lines=[one for one in read if one.editor == editor])
        folder = RunFolder.create(places[editor], made.spec(editor, known, data.spec), data.files)
        records = list(made.records())
        done = sum(isinstance(record, Batch | Replied) for record in folder.read())
        if done < len(records):  # the records are deterministic: append the rest of an interrupted import
            with folder.writing() as writer:
                writer.append(records[done:])
        judge_run(folder, cases.values(), judge)
        with folder.writing():
            score_run(folder, cases.values(), measures)
        found.append(
            ImportedRun(
                folder=folder,
                answers=len(made.lines),
                left_out=sum(len(made.left_out(unit)) for unit in made.units),
                absent=sum(len(record.skipped) for record in records if isinstance(record, Batch)),
            )
        )
    return found


def _places(editors: Sequence[str], out: Path) -> dict[str, Path]:
    """Return ``out`` for one editor, or a subfolder with a safe name for each of several editors."""
    if len(editors) == 1:
        return {editors[0]: out}
    found = {editor: out / (re.sub(r"[^\w-]+", "-", editor).strip("-") or "editor") for editor in editors}
    twice = [path for path, n in Counter(found.values()).items() if n > 1]
    if twice:
        alike = " and ".join(repr(editor) for editor, path in found.items() if path == twice[0])
        raise BadData(f"the editors {alike} would share the folder {twice[0]}", hint="rename one of them in the file")
    return found


@frozen(kw_only=True)
class _Import:
    """The lines of one editor. ``units``: the answers by case, phase and style, in the order of the file."""

    request: ImportRequest
    cases: Mapping[str, Case]
    lines: Sequence[Prediction]
    units: Mapping[Unit, Mapping[str, str]] = field(init=False)
    of_case: Mapping[str, Prediction] = field(init=False)

    @units.default
    def _units(self) -> Mapping[Unit, Mapping[str, str]]:
        found: dict[Unit, dict[str, str]] = {}
        for line in self.lines:
            found.setdefault((line.case, line.phase, line.style), {})[line.query] = line.text
        return found

    @of_case.default
    def _of_case(self) -> Mapping[str, Prediction]:
        return {line.case: line for line in self.lines}

    def spec(self, editor: str, dataset: DataRef, of: DatasetSpec) -> RunSpec:
        """Return the specification of the run. The content of the file identifies the editor."""
        file, request = self.request.file, self.request
        used = {line.style for line in self.lines}
        options = {"file": file.name, "sha256": sha256_of(file), "missing": request.missing}
        return RunSpec(
            ke=version("ke-core"),
            model=ModelRef(source=IMPORTED, id=request.model or "not stated"),
            editor=Component(name=editor, distribution="", version="", options=options),
            dataset=dataset,
            styles=tuple(style for style in (*of.styles, OWN) if style in used),
            plan=self._plan(),
            edited_form=request.edited_form,
        )

    def records(self) -> Iterator[Record]:
        """Yield each batch and its answers, then the cases that the file lacks."""
        after = {case for case, phase, _style in self.units if phase == "after"}
        lacks = f"{self.request.file.name} has no answer"
        for name, members in self._batches().items():
            skipped = {case: f"{lacks} after editing" for case in members if case not in after}
            edited = [case for case in members if self.of_case[case].edited]
            units = [unit for unit in self.units if unit[0] in members]
            left_out = {"/".join(unit): out for unit in units if (out := self.left_out(unit))}
            yield Batch(
                batch=name,
                cases=tuple(case for case in edited if case in after),
                controls=tuple(case for case in members if case not in edited and case in after),
                edits=len(distinct(edit for case in edited for edit in self.cases[case].edits)),
                skipped=skipped,
                details={"left out": left_out} if left_out else {},
            )
            for case, phase, style in units:
                yield Replied(
                    batch=name if phase == "after" else UNEDITED_BATCH,
                    case=case,
                    phase=phase,
                    style=style,
                    replies=self._replies((case, phase, style)),
                )
        absent = {case: lacks for case in self.cases if case not in self.of_case}
        if absent:
            yield Batch(batch=ABSENT, cases=(), edits=0, skipped=absent)

    def left_out(self, unit: Unit) -> list[str]:
        """Return the unanswered queries of this case whose aspects the file answers for some case."""
        case, phase, style = unit
        aspects = self._aspects[phase, style]
        wanted = (query.id for query in queries_of(self.cases[case], phase) if not query.continuations)
        of = aspects_of(self.cases[case], phase)
        return [query for query in wanted if query not in self.units[unit] and aspects.intersection(of[query])]

    @cached_property
    def _aspects(self) -> Mapping[tuple[Phase, str], frozenset[str]]:
        """The answered aspects by phase and style."""
        found: dict[tuple[Phase, str], set[str]] = {}
        for (case, phase, style), answers in self.units.items():
            of = aspects_of(self.cases[case], phase)
            found.setdefault((phase, style), set()).update(*(of[query] for query in answers))
        return {key: frozenset(aspects) for key, aspects in found.items()}

    def _replies(self, unit: Unit) -> dict[str, Reply]:
        replies: dict[str, Reply] = {query: Answer(text=text, raw=text) for query, text in self.units[unit].items()}
        if self.request.missing == "wrong":
            gone = Failure(error=MISSING, message=f"{self.request.file.name} has no answer")
            replies |= dict.fromkeys(self.left_out(unit), gone)
        return replies

    def _plan(self) -> Plan:
        """Infer the plan: one batch with controls is a sample, everything else a partition."""
        batches = self._batches()
        edited = [sum(self.of_case[case].edited for case in members) for members in batches.values()]
        sample = len(batches) == 1 and not all(line.edited for line in self.lines)
        return Plan(protocol="sample" if sample else "partition", size=max(1, *edited))

    def _batches(self) -> dict[str, dict[str, None]]:
        """Return the cases by batch, in the order of the dataset. A case without a batch is edited separately."""
        found: dict[str, dict[str, None]] = {}
        for case in self.cases:
            if case in self.of_case:
                name = self.of_case[case].batch
                found.setdefault(f"batch-{name}" if name else f"case-{case}", {})[case] = None
        return found
