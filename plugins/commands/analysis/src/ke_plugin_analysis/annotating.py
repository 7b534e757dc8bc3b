"""``ke annotate RUN``: a fair sample of a run's answers to be judged by hand, and how far the judge agrees."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from attrs import evolve, frozen

from ke_core.app import Agreement, Catalog, Component, Options, RunFolder, gold_of, recorded_run, records_of
from ke_core.plugin import PHASES, Answer, BadData, BadRun, CaseRecord, Gold, Phase, Reply, Verdict, digest, to_json
from ke_plugin_analysis.kappa import measure_agreement
from ke_plugin_analysis.observations import aspects_of
from ke_plugin_analysis.sheets import read_sheet, write_sheet
from ke_plugin_analysis.sorting import LabelComparison, Place, choose_labeling_metric, compare_labels, labels_of, sort

LABELS = tuple(verdict.value for verdict in Verdict)
MARKS = ("item", "label")
"""The first columns; between them and the others a column for each metric that sorts answers."""
ABOUT = ("question", "answer", "right", "right before the edit", "written", "asked", "note")
NOT_RIGHT = "not right"
NONE: Options = MappingProxyType({})


@frozen(kw_only=True)
class LabeledAnswer:
    """One answer that can be labeled. ``gold`` and ``stale`` are right, and were right, at that moment.

    ``id`` names the run, the query and the answer itself: a sheet fits no other run, and no changed record.
    """

    id: str
    case: str
    query: str
    phase: Phase
    style: str
    aspect: str
    question: str
    gold: str
    stale: str
    answer: Answer
    verdict: Verdict

    @property
    def place(self) -> Place:
        """Where it is on record."""
        return (self.case, self.phase, self.style, self.query)

    @property
    def stratum(self) -> tuple[str, ...]:
        """What the sample holds its share of."""
        return (self.phase, self.style, self.aspect, self.verdict.value)


@frozen(kw_only=True)
class LabelSheet:
    """What was read back: ``n`` labeled rows, ``open`` without a label; ``table[label by hand][judge's verdict]``.

    ``verdicts``: agreement on the four verdicts; ``right``: on right or not right, which most scores rest on.
    ``sortings``: of metrics that sort answers, if any were sorted by hand.
    """

    judge: Component
    n: int
    open: int
    verdicts: Agreement
    right: Agreement
    table: Mapping[str, Mapping[str, int]]
    disagreed: tuple[tuple[LabeledAnswer, str], ...]
    sortings: tuple[LabelComparison, ...] = ()


def write_labels(
    folder: RunFolder, catalog: Catalog, to: Path, *, sample: int, seed: int, judge: str = "", data_dir: str = ""
) -> int:
    """Write a sheet of ``sample`` answers, or all there are; how many it has. The judge's verdicts are not in it.

    Phases, styles, aspects and verdicts have their share of it (largest remainders), drawn with the seed; the rows are
    in random order. Each metric that sorts answers, such as ``error-types``, has an empty column. Raises BadRun if the
    run has not been judged, or has no text answer.
    """
    _judge, records = _records(folder, catalog, judge=judge, data_dir=data_dir)
    every = _items(folder, records)
    if not every:
        raise BadRun(f"{folder.path} has no answer that could be labeled", hint="ke report says what it holds")
    drawn = _draw(every, sample, seed)
    sorts = [name for name in catalog.names("metric") if labels_of(catalog, name)]
    write_sheet(to, (*MARKS, *sorts, *ABOUT), [_row(item) for item in drawn])
    return len(drawn)


def read_labels(
    folder: RunFolder, catalog: Catalog, sheet: Path, *, judge: str = "", options: Options = NONE, data_dir: str = ""
) -> LabelSheet:
    """The labels of a sheet against the judge's verdicts, and against what metrics sorted the answers into.

    ``options``: of these metrics. Raises BadData that names file and row.
    """
    chosen = choose_labeling_metric(catalog, options)
    component, records = _records(folder, catalog, judge=judge, data_dir=data_dir)
    by_id = {item.id: item for item in _items(folder, records)}
    seen: dict[str, int] = {}
    found: list[tuple[LabeledAnswer, str]] = []
    sorted_: dict[str, dict[Place, str]] = {each.component.name: {} for each in chosen}
    waiting = 0
    for row, cells in read_sheet(sheet, MARKS):
        where = f"{sheet}, row {row}"
        name = cells.get("item", "").strip()
        if name not in by_id:
            raise BadData(
                f"{where}: item {name[:40]!r} is no answer of {folder.path}",
                hint="the sheet is of another run, or records were changed since it was written",
            )
        if name in seen:
            raise BadData(f"{where}: item {name!r} stands in row {seen[name]} already")
        seen[name] = row
        label = _label(cells, "label", LABELS, where)
        for metric, places in sorted_.items():
            if kind := _label(cells, metric, labels_of(catalog, metric), where):
                if not label:
                    raise BadData(
                        f"{where}: {metric} is {kind!r} and there is no label", hint="write wrong or stale too"
                    )
                places[by_id[name].place] = kind
        if label:
            found.append((by_id[name], label))
        else:
            waiting += 1
    if not found:
        raise BadData(f"{sheet} has no label yet", hint=f"write one of {', '.join(LABELS)} into the column label")
    seed = folder.spec.seed
    sortings = [
        compare_labels(sort(each, catalog, records), by_hand, seed=seed)
        for each in chosen
        if (by_hand := sorted_[each.component.name])
    ]
    return evolve(_agreement(component, found, waiting, seed=seed), sortings=tuple(sortings))


def _label(cells: Mapping[str, str], column: str, labels: Sequence[str], where: str) -> str:
    """What stands in that column, one of ``labels``; empty where nothing does, or there is no such column."""
    found = cells.get(column, "").strip().lower()
    if found and found not in labels:
        raise BadData(f"{where}: {column} {found[:40]!r} is none of {', '.join(labels)}")
    return found


def _agreement(judge: Component, found: Sequence[tuple[LabeledAnswer, str]], waiting: int, *, seed: int) -> LabelSheet:
    by_hand = [label for _item, label in found]
    by_judge = [item.verdict.value for item, _label in found]
    units = [item.case for item, _label in found]
    counts = Counter(zip(by_hand, by_judge, strict=True))
    right = [[label if label == Verdict.RIGHT.value else NOT_RIGHT for label in of] for of in (by_hand, by_judge)]
    return LabelSheet(
        judge=judge,
        n=len(found),
        open=waiting,
        verdicts=measure_agreement(by_hand, by_judge, seed=seed, units=units),
        right=measure_agreement(*right, seed=seed, units=units),
        table={label: {verdict: counts[label, verdict] for verdict in LABELS} for label in LABELS},
        disagreed=tuple((item, label) for item, label in found if label != item.verdict.value),
    )


def _records(folder: RunFolder, catalog: Catalog, *, judge: str, data_dir: str) -> tuple[Component, list[CaseRecord]]:
    return records_of(folder, recorded_run(folder, catalog, data_dir).cases, judge=judge)


def _items(folder: RunFolder, records: Sequence[CaseRecord]) -> list[LabeledAnswer]:
    return [item for record in records for item in _of_case(record, folder)]


def _of_case(record: CaseRecord, folder: RunFolder) -> Iterator[LabeledAnswer]:
    for phase in PHASES:
        gold = gold_of(record.case, phase, folder.spec, edited=record.edited)
        aspects = aspects_of(record.case, phase)
        for (at, style, name), outcome in record.outcomes.items():
            if at == phase and isinstance(outcome.reply, Answer) and name in gold:
                query = gold[name]
                yield LabeledAnswer(
                    id=_id(folder, record.case.id, phase, style, name, outcome.reply),
                    case=record.case.id,
                    query=name,
                    phase=phase,
                    style=style,
                    aspect=aspects[name][0],
                    question=query.texts[0],
                    gold=_names(query.gold),
                    stale=_names(query.stale) if query.stale else "",
                    answer=outcome.reply,
                    verdict=outcome.judgment.verdict,
                )


def _id(folder: RunFolder, *where: str | Reply) -> str:
    """It begins with a letter: a spreadsheet would take 12e45 for a number."""
    return "q" + digest([folder.id, *(part if isinstance(part, str) else to_json(part) for part in where)])[:15]


def _names(gold: Gold) -> str:
    return gold.words(lambda entity: " / ".join(entity.names))


def _row(item: LabeledAnswer) -> dict[str, str]:
    raw = item.answer.raw.strip()
    return {
        "item": item.id,
        "question": item.question,
        "answer": item.answer.text,
        "right": item.gold,
        "right before the edit": item.stale,
        "written": "" if raw == item.answer.text.strip() else raw,
        "asked": f"case {item.case}, {item.query}, {item.phase} editing, {item.style}",
    }


def _draw(every: Sequence[LabeledAnswer], sample: int, seed: int) -> list[LabeledAnswer]:
    """A share of each stratum in proportion to its size; every order is by a hash of seed and item."""

    def thrown(item: LabeledAnswer) -> bytes:
        return hashlib.sha256(f"{seed}/label/{item.id}".encode()).digest()

    strata: dict[tuple[str, ...], list[LabeledAnswer]] = {}
    for item in sorted(every, key=thrown):
        strata.setdefault(item.stratum, []).append(item)
    share = min(1.0, sample / len(every))
    taken = {stratum: int(len(items) * share) for stratum, items in strata.items()}
    remainders = sorted(strata, key=lambda of: (taken[of] - len(strata[of]) * share, of))
    for stratum in remainders[: min(sample, len(every)) - sum(taken.values())]:
        taken[stratum] += 1
    return sorted((item for stratum, items in strata.items() for item in items[: taken[stratum]]), key=thrown)
