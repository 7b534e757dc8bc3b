"""Judge the recorded replies of a run and append the judgments. The edited model is not needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from attrs import evolve, field, frozen

from ke_core.plugins.catalog import Catalog
from ke_core.results.folder import RECORDS, RunFolder
from ke_core.results.index import Index, key_of
from ke_core.runner.requests import asked_by_id, in_form
from ke_core.runner.resolve import ResolvedComponent
from ke_core.runner.run import OpenJudge
from ke_core.runner.session import ModelChoice, open_session
from ke_core.runner.tables import not_in_dataset, refuse_empty
from ke_core.runner.usage import FREE, Prices, since_last
from ke_core.spec.errors import BadConfig, PluginBroken
from ke_core.spec.protocols import Progress
from ke_core.spec.queries import Case, Phase, Query, expected
from ke_core.spec.records import Judged, Replied, Usage
from ke_core.spec.results import Failure, Finding, Item, Judgment, Scored, Verdict
from ke_core.spec.runspec import RunSpec
from ke_core.spec.specs import JudgeSpec

TOGETHER, FEW = 64, 16
"""The number of lines that are judged and written together. Fewer if the judge asks a model."""


def judge_run(folder: RunFolder, cases: Iterable[Case], judge: OpenJudge, asking: JudgeModel | None = None) -> int:
    """Append a ``Judged`` line for every ``Replied`` line that ``judge`` has not judged. Return their number.

    A judge is identified by its component: name, version, options and model. The last judge in the file counts, so if
    this judge has judged everything, and another one after it, then its last line is repeated. The usage of the
    server of ``asking``, the judge's model, is recorded too. Raises BadRun if no reply is recorded.
    """
    key = key_of(judge.component)
    spent = partial(asking.since_last, judge.session.model) if asking and judge.session else tuple
    together = TOGETHER if judge.session is None else FEW
    with folder.writing() as writer:
        index = Index.of(folder.path / RECORDS)
        refuse_empty(index, folder)
        todo, done = index.count(key), 0
        if not todo and key in index.judges and key != [*index.judges][-1]:
            writer.append([line for line in [index.last(key)] if line])
        waiting = waiting_items(index, cases, key, folder)
        try:
            while some := [*islice(waiting, together)]:
                writer.append([*_lines(judge, some), *spent()])
                done += len(some)
                if judge.session is not None:
                    judge.session.progress.advance("judging", done, todo)
        finally:
            if rest := spent():  # tokens are paid for even if the judge is interrupted
                writer.append(rest)
    return todo


def _lines(judge: OpenJudge, some: Sequence[tuple[Replied, dict[str, Item]]]) -> list[Judged]:
    """Judge several lines of replies together."""
    verdicts = iter(judge_items(judge, [item for _line, items in some for item in items.values()]))
    return [
        Judged(
            step=line.step,
            batch=line.batch,
            case=line.case,
            phase=line.phase,
            style=line.style,
            judge=judge.component,
            judgments={query: next(verdicts) for query in items},
        )
        for line, items in some
    ]


def gold_of(case: Case, phase: Phase, spec: RunSpec, *, edited: bool) -> Mapping[str, Query]:
    """Return the queries of ``case`` in that phase, with the answers that are right then."""
    asked = asked_by_id(case, phase).values()
    right = (query if probe is None else expected(query, probe, phase, edited=edited) for query, probe in asked)
    return {query.id: in_form(query, phase, spec.edited_form, edited=edited) for query in right}


def held(case: Case, phase: Phase, *, edited: bool) -> tuple[str, ...]:
    """Return the facts of ``case`` that are true in that phase, as distinct sentences.

    A case may have its own sentences for judges. Otherwise they are those of its edits and facts.
    """
    new = phase == "after" and edited
    own = case.sentences_after if new else case.sentences_before
    of_edits = [edit.statement if new else edit.before.sentence if edit.before else "" for edit in case.edits]
    behind = [fact.sentence for fact in (case.facts_after if new else case.facts_before)]
    # sentences of the file come before sentences that are made from labels
    said = own or ([*of_edits, *behind] if new else [*behind, *of_edits])
    return tuple(dict.fromkeys(sentence.strip() for sentence in said if sentence.strip()))


def waiting_items(
    index: Index, cases: Iterable[Case], judge: str, folder: RunFolder
) -> Iterator[tuple[Replied, dict[str, Item]]]:
    """Yield the lines that ``judge`` has not judged, case by case, with their items."""
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
            raise not_in_dataset(folder, f"a reply to query {query} of case {line.case}")
    facts = held(case, line.phase, edited=edited) if case else ()
    return {query: Item(query=found[query], reply=reply, facts=facts) for query, reply in line.replies.items()}


def judge_items(judge: OpenJudge, items: Sequence[Item]) -> list[Judgment]:
    """Return one judgment for each item. Items whose judgment is the same for every judge are not sent to the judge."""
    settled = [_settled(item, scored=judge.scored) for item in items]
    answered = [item for item, judgment in zip(items, settled, strict=True) if judgment is None]
    given = judge.judge.judge(judge.session, answered) if answered else []
    if len(given) != len(answered):
        name = judge.component.name
        raise PluginBroken(
            f"judge {name} returned {len(given)} judgments of {len(answered)} replies",
            hint=f"tell the author of {name}",
        )
    rest = iter(given)
    return [next(rest) if judgment is None else judgment for judgment in settled]


def _settled(item: Item, *, scored: bool) -> Judgment | None:
    """Return the judgment that is the same for every judge, or None. A ``Failure`` is wrong.

    Log-probabilities, or a failure to compute them, get no verdict unless the judge is ``scored``: metrics read them.
    """
    reply = item.reply
    if (isinstance(reply, Scored) and not scored) or (isinstance(reply, Failure) and reply.unscored):
        return Judgment(verdict=Verdict.UNSURE, findings=(Finding(item="log-probabilities", label="not-a-text"),))
    if isinstance(reply, Failure):
        return Judgment(verdict=Verdict.WRONG, findings=(Finding(item=reply.error, label="failure"),))
    return None


@frozen(kw_only=True)
class JudgeModel:
    """The model that a judge asks, the progress of its loading, and the prices of its server.

    ``spent`` collects the usage of the server.
    """

    model: ModelChoice
    progress: Progress
    prices: Prices = FREE
    spent: list[Usage] = field(factory=list)

    def since_last(self, model: object) -> tuple[Usage, ...]:
        """Return the usage of ``model``'s server since the last call."""
        new = since_last(model, self.prices)
        self.spent.extend(new)
        return new


def metrics_of(catalog: Catalog, name: str) -> tuple[str, ...]:
    """Return the metrics that read the findings of that judge. Empty if it is not installed."""
    registration: Any = catalog.registrations["judge"].get(name)
    return () if registration is None else registration.spec.metrics


def open_judge(chosen: ResolvedComponent[JudgeSpec], catalog: Catalog, asking: JudgeModel | None) -> OpenJudge:
    """Build a judge, and load its model.

    Raises BadConfig if a model is missing, or is given to a judge that asks none. There is no fallback to another
    rule.
    """
    name = chosen.spec.name
    if asking is None and chosen.spec.needs_model:
        raise BadConfig(f"judge {name} needs a model to ask", hint="choose one with --judge-model [SOURCE:]ID")
    if asking is not None and not chosen.spec.needs_model:
        raise BadConfig(f"judge {name} asks no model", hint="leave --judge-model out")
    opened = OpenJudge(judge=chosen.built, component=chosen.component, scored=chosen.spec.scored)
    if asking is None:
        return opened
    model = asking.model.load(catalog, asking.progress)
    return evolve(
        opened,
        component=evolve(chosen.component, model=asking.model.describe(catalog, model)),
        session=open_session(model, catalog=catalog, seed=0, progress=asking.progress, material={}),
    )
