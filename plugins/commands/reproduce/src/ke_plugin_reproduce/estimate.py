"""Estimate the cost of a run: count edits and questions, and take times from earlier runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from ke_core.app import Batch, Group, Replied, RequestBuilder, RequestGroup, ResolvedRun, RunFolder, RunSpec, runs_in
from ke_core.plugin import Answer, BadRun, Case, EditorRequest, Likelihood


@frozen(kw_only=True)
class Workload:
    """The number of cases, edits, and questions for the unedited and the edited model.

    Questions for the unedited model that an earlier run of the plan has sent are cached and not counted.
    """

    cases: int
    edits: int
    unedited: int
    edited: int


@define
class Rates:
    """Costs of earlier runs: sums for the edited model, the rate of the slowest run for the unedited model.

    Cached answers of the unedited model are fast, so sums would underestimate its cost.
    """

    runs: int = 0
    edits: int = 0
    edit_seconds: float = 0.0
    answers: int = 0
    answer_seconds: float = 0.0
    calls: int = 0
    unedited: float = 0.0
    memory: int = 0
    """The peak memory of the process in bytes, over all runs; 0 if unknown."""

    def seconds(self, work: Workload) -> float | None:
        """Return the estimated seconds of ``work`` with a loaded model. None without earlier runs."""
        if not self.runs or (work.edits and not self.edits) or (work.edited and not self.answers):
            return None
        of_edits = work.edits * self.edit_seconds / max(1, self.edits)
        return of_edits + work.edited * self.answer_seconds / max(1, self.answers) + work.unedited * self.unedited

    def model_calls(self, work: Workload) -> int | None:
        """Return the estimated model calls of ``work``, including cached ones. None without earlier runs."""
        return round(work.unedited + work.edited * self.calls / self.answers) if self.answers else None


def workload_of(found: ResolvedRun, model: str, seen: set[int]) -> Workload:
    """Count the edits and requests of a run of ``model``.

    ``seen``: hashes of the requests to unedited models so far. Those of this run are added.
    """
    made, asked, builder = found.groups, found.asked, RequestBuilder.of(found)
    own = sum(len(measure.requests) for measure in found.measures)
    unedited = 0
    if found.editor_spec.needs_model:
        for request in _before(builder, made):
            key = hash((model, *_content(request)))
            unedited += key not in seen
            seen.add(key)
        unedited += own + (_count(builder.control, made) if found.editor_spec.own_before else 0)
    return Workload(
        cases=len({case.id for group in asked for case in group.cases}),
        edits=sum(len({edit.id for case in group.edited for edit in case.edits}) for group in made),
        unedited=unedited,
        edited=len(asked) * own + sum(_after(builder, group) for group in asked),
    )


def _before(builder: RequestBuilder, made: Sequence[Group]) -> Iterator[EditorRequest]:
    for group in made:
        for case in group.cases:
            for unit in builder.before(case):
                yield from unit.questions


def _after(builder: RequestBuilder, group: Group) -> int:
    return _count(lambda case: builder.after(case, {}, edited=group.edits(case)), [group])


def _count(units_of: Callable[[Case], list[RequestGroup]], made: Sequence[Group]) -> int:
    return sum(len(unit.questions) for group in made for case in group.cases for unit in units_of(case))


def _content(request: EditorRequest) -> tuple[Any, ...]:
    if isinstance(request, Likelihood):
        return (request.prompt, *request.prompts, *request.continuations)
    return (request.prompt.text,)


@define
class EarlierRuns:
    """The recorded runs under ``roots``, read on demand."""

    roots: Sequence[Path]
    _folders: list[RunFolder] | None = None
    _rates: dict[tuple[object, ...], Rates] = field(factory=dict)

    def rates(self, found: ResolvedRun) -> Rates:
        """Return the rates of runs with the same editor, dataset and model, preferably of the same batch size."""
        key = (*_named(found.spec), *_how(found.spec))
        if key not in self._rates:
            like = [folder for folder in self._all() if _named(folder.spec) == key[:3]]
            same = [folder for folder in like if _how(folder.spec) == key[3:]]
            self._rates[key] = _rates(same or like)
        return self._rates[key]

    def _all(self) -> list[RunFolder]:
        if self._folders is None:
            found = [one for root in self.roots if root.is_dir() for _path, one in runs_in(root)]
            self._folders = [one for one in found if isinstance(one, RunFolder)]
        return self._folders


def _named(spec: RunSpec) -> tuple[object, ...]:
    return (spec.editor.name, spec.dataset.component.name, spec.model.id)


def _how(spec: RunSpec) -> tuple[object, ...]:
    return (spec.plan.size, spec.plan.protocol, spec.plan.sequential)


def _rates(folders: Iterable[RunFolder]) -> Rates:
    total = Rates()
    for folder in folders:
        try:
            _add(total, folder)
        except BadRun:
            continue  # skip damaged runs
    return total


def _add(total: Rates, folder: RunFolder) -> None:
    asked, seconds = 0, 0.0
    for record in folder.read():
        if isinstance(record, Batch):
            total.edits += record.edits
            total.edit_seconds += record.seconds
        elif isinstance(record, Replied) and record.phase == "after":
            total.answers += len(record.replies)
            total.answer_seconds += record.seconds
            total.calls += sum(
                reply.cost.calls if isinstance(reply, Answer) else 1 for reply in record.replies.values()
            )
        elif isinstance(record, Replied):
            asked, seconds = asked + len(record.replies), seconds + record.seconds
    total.memory = max([total.memory, *(line.get("peak_host_bytes") or 0 for line in folder.logged())])
    total.unedited = max(total.unedited, seconds / asked if asked else 0.0)
    total.runs += 1
