"""Judging a finished run: verdicts are appended to the records, the edited model is not needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from attrs import evolve, field, frozen

from ke_core.plugins.catalog import Catalog
from ke_core.results.folder import RECORDS, RunFolder
from ke_core.results.index import Index, key_of
from ke_core.results.writer import Writer
from ke_core.runner.requests import in_form
from ke_core.runner.resolve import Options, ResolvedComponent, resolve_component
from ke_core.runner.session import ModelChoice, open_session
from ke_core.runner.tables import refuse_empty
from ke_core.runner.usage import FREE, Prices, since_last
from ke_core.spec.errors import BadConfig, BadRun, PluginBroken
from ke_core.spec.protocols import Judge, Progress, Session
from ke_core.spec.queries import Case, Phase, Probe, Query, expected
from ke_core.spec.records import Judged, Replied, Usage
from ke_core.spec.results import Failure, Finding, Item, Judgement, Scored, Verdict
from ke_core.spec.runspec import Component, RunSpec
from ke_core.spec.specs import JudgeSpec

TOGETHER, FEW = 64, 16
"""Lines that are judged and written together: what a killed judge loses. Fewer where a model is asked."""


def judge_run(
    folder: RunFolder,
    cases: Iterable[Case],
    judge: Judge,
    component: Component,
    *,
    session: Session[Any] | None = None,
    scored: bool = False,
    held: Writer | None = None,
    spent: Callable[[], Sequence[Usage]] = tuple,
) -> int:
    """Append a ``Judged`` line for every ``Replied`` line that ``component`` has not judged; how many there were.

    ``component`` (name, version, every option, the model it asks) is the judge's identity: with another option it
    judges anew. Where it has judged everything before another one did, its last line is repeated: the last judge
    counts. ``session``: of a judge that asks a model. ``scored``: it is given log-probabilities too. ``held``: the
    writer of a run that is judged as it ends. ``spent``: what the model's server was asked since it was last called.
    Raises BadRun where no reply is on record.
    """
    key = key_of(component)
    together = TOGETHER if session is None else FEW
    with folder.writing(held) as writer:
        index = Index.of(folder.path / RECORDS)
        refuse_empty(index, folder)
        todo, done = index.count(key), 0
        if not todo and key in index.judges and key != [*index.judges][-1]:
            writer.append([line for line in [index.last(key)] if line])
        waiting = _waiting(index, cases, key, folder)
        try:
            while some := [*islice(waiting, together)]:
                writer.append([*_lines(judge, component, some, session=session, scored=scored), *spent()])
                done += len(some)
                if session is not None:
                    session.progress.advance("lines judged", done, todo)
        finally:
            if rest := spent():  # a judge that is interrupted, or whose server fails, has paid too
                writer.append(rest)
    return todo


def _lines(
    judge: Judge,
    component: Component,
    some: Sequence[tuple[Replied, dict[str, Item]]],
    *,
    session: Session[Any] | None,
    scored: bool,
) -> list[Judged]:
    """What ``judge`` says of lines of replies, all asked together."""
    flat = [item for _line, items in some for item in items.values()]
    verdicts = iter(judge_items(judge, component, flat, session=session, scored=scored))
    return [
        Judged(
            step=line.step,
            batch=line.batch,
            case=line.case,
            phase=line.phase,
            style=line.style,
            judge=component,
            judgements={query: next(verdicts) for query in items},
        )
        for line, items in some
    ]


def gold_of(case: Case, phase: Phase, spec: RunSpec, *, edited: bool) -> Mapping[str, Query]:
    """The queries of ``case`` as they are put in that phase, with the answers that are right at that moment."""
    found: dict[str, Query] = {}
    for query, probe in _with_probe(case, phase):
        if query.id not in found:
            right = query if probe is None else expected(query, probe, phase, edited=edited)
            found[query.id] = in_form(right, phase, spec.edited_form, edited=edited)
    return found


def held(case: Case, phase: Phase, *, edited: bool) -> tuple[str, ...]:
    """What ``case`` says is true in that phase, in sentences, each once.

    Its own sentences for judges; without any, those of its edits, then of the facts behind it.
    """
    new = phase == "after" and edited
    own = case.sentences_after if new else case.sentences_before
    of_edits = [edit.statement if new else edit.before.sentence if edit.before else "" for edit in case.edits]
    behind = [fact.sentence for fact in (case.facts_after if new else case.facts_before)]
    # what the file itself says of a fact comes before what is made up of its labels
    said = own or ([*of_edits, *behind] if new else [*behind, *of_edits])
    return tuple(dict.fromkeys(sentence.strip() for sentence in said if sentence.strip()))


def _with_probe(case: Case, phase: Phase) -> Iterator[tuple[Query, Probe | None]]:
    """Each query with the probe that decides what is right; a condition's gold stands as it is."""
    for probe in case.probes:
        if probe.asked(phase):
            yield from ((query, probe) for query in probe.queries)
        if phase == "before":
            yield from ((query, None) for query in probe.given)


def _waiting(
    index: Index, cases: Iterable[Case], judge: str, folder: RunFolder
) -> Iterator[tuple[Replied, dict[str, Item]]]:
    """The lines that ``judge`` has not judged, case by case, with what it is to judge."""
    seen = set()
    for case in cases:
        seen.add(case.id)
        yield from _of_case(index, case.id, case, judge, folder)
    for name in index.cases:
        if name not in seen:
            yield from _of_case(index, name, None, judge, folder)


def _of_case(
    index: Index, name: str, case: Case | None, judge: str, folder: RunFolder
) -> Iterator[tuple[Replied, dict[str, Item]]]:
    controlled = {batch.batch for batch, edited in index.within(name) if not edited}
    for line in index.unjudged(name, judge):
        yield line, _items(line, case, folder, edited=line.batch not in controlled)


def _items(line: Replied, case: Case | None, folder: RunFolder, *, edited: bool) -> dict[str, Item]:
    found = gold_of(case, line.phase, folder.spec, edited=edited) if case else {}
    for query in line.replies:
        if query not in found:
            raise BadRun(
                f"{folder.path} has a reply to query {query} of case {line.case}, which the dataset does not have",
                hint=f"use the dataset the run was made with: sha256 {folder.spec.dataset.sha256}",
            )
    facts = held(case, line.phase, edited=edited) if case else ()
    return {query: Item(query=found[query], reply=reply, facts=facts) for query, reply in line.replies.items()}


def judge_items(
    judge: Judge, component: Component, items: Sequence[Item], *, session: Session[Any] | None, scored: bool
) -> list[Judgement]:
    """One judgement an item. What is settled whatever the judge, it is not asked about."""
    settled = [_settled(item, scored=scored) for item in items]
    answered = [item for item, judgement in zip(items, settled, strict=True) if judgement is None]
    given = judge.judge(session, answered) if answered else []
    if len(given) != len(answered):
        raise PluginBroken(
            f"judge {component.name} returned {len(given)} judgements of {len(answered)} replies",
            hint=f"tell the author of {component.name}",
        )
    rest = iter(given)
    return [next(rest) if judgement is None else judgement for judgement in settled]


def _settled(item: Item, *, scored: bool) -> Judgement | None:
    """A ``Failure`` is wrong. Log-probabilities have no verdict, nor has their absence, unless the judge is ``scored``:
    metrics read the numbers.
    """
    reply = item.reply
    if (isinstance(reply, Scored) and not scored) or (isinstance(reply, Failure) and reply.unscored):
        return Judgement(verdict=Verdict.UNSURE, findings=(Finding(item="log-probabilities", label="not-a-text"),))
    if isinstance(reply, Failure):
        return Judgement(verdict=Verdict.WRONG, findings=(Finding(item=reply.error, label="failure"),))
    return None


@frozen(kw_only=True)
class JudgeModel:
    """The model that a judge asks, where loading it says how far it is, and what a server takes for its tokens.

    ``spent`` grows by what the server is asked, as it goes on record.
    """

    model: ModelChoice
    progress: Progress
    prices: Prices = FREE
    spent: list[Usage] = field(factory=list)

    def since_last(self, model: object) -> tuple[Usage, ...]:
        """What ``model``'s server was asked since the last time."""
        new = since_last(model, self.prices)
        self.spent.extend(new)
        return new


@frozen(kw_only=True)
class ChosenJudge(ResolvedComponent):
    """A judge with its options."""

    spec: JudgeSpec


@frozen(kw_only=True)
class OpenJudge:
    """A judge that is ready: what stands for it, its model included, and the session it asks in."""

    judge: Judge
    component: Component
    session: Session[Any] | None = None


def resolve_judge(catalog: Catalog, name: str, options: Options) -> ChosenJudge:
    """The judge of that name. Raises UnknownComponent, BadConfig."""
    chosen = resolve_component(catalog, "judge", name, options)
    assert isinstance(chosen.spec, JudgeSpec)
    return ChosenJudge(spec=chosen.spec, config=chosen.config, component=chosen.component)


def metrics_of(catalog: Catalog, name: str) -> tuple[str, ...]:
    """The metrics that read what that judge finds beside verdicts; none of a judge that is not installed."""
    offer: Any = catalog.offers["judge"].get(name)
    return () if offer is None else offer.spec.metrics


def open_judge(chosen: ChosenJudge, catalog: Catalog, asking: JudgeModel | None) -> OpenJudge:
    """Build it, and load its model.

    Never without the model it needs, and never by another rule in its stead (V15): raises BadConfig where a model is
    missing, or given to a judge that asks none.
    """
    name = chosen.spec.name
    if not chosen.spec.needs_model:
        if asking is not None:
            raise BadConfig(f"judge {name} asks no model", hint="leave --judge-model out")
        return OpenJudge(judge=chosen.build(), component=chosen.component)
    if asking is None:
        raise BadConfig(f"judge {name} needs a model to ask", hint="say which with --judge-model [SOURCE:]ID")
    judge = chosen.build()
    model = asking.model.load(catalog, asking.progress)
    return OpenJudge(
        judge=judge,
        component=evolve(chosen.component, model=asking.model.describe(catalog, model)),
        session=open_session(model, catalog=catalog, seed=0, progress=asking.progress, material={}),
    )
