"""``ke annotate RUN``: write a stratified sample of answers for manual labels, and measure the judge's agreement."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
"""The first columns. A column for each metric that labels answers follows, then the others."""
ABOUT = ("question", "answer", "gold answer", "pre-edit answer", "raw output", "source", "note")
NOT_RIGHT = "not right"
NONE: Options = MappingProxyType({})


@frozen(kw_only=True)
class LabeledAnswer:
    """An answer that can be labeled. ``gold``: the right answer in that phase. ``pre_edit``: the one before the edit.

    ``id`` is a hash of run, query and answer, so that a sheet fits no other run and no changed record.
    """

    id: str
    case: str
    query: str
    phase: Phase
    style: str
    aspect: str
    question: str
    gold: str
    pre_edit: str
    answer: Answer
    verdict: Verdict

    @property
    def place(self) -> Place:
        """The place of the answer in the record."""
        return (self.case, self.phase, self.style, self.query)

    @property
    def stratum(self) -> tuple[str, ...]:
        """The stratum: the sample contains each one in proportion."""
        return (self.phase, self.style, self.aspect, self.verdict.value)


@frozen(kw_only=True)
class LabelSheet:
    """The labels of a sheet: ``n`` labeled rows, ``open`` rows without a label, and ``table[manual][verdict]``.

    ``verdicts``: agreement on the four verdicts. ``right``: agreement on right or not right, which most scores use.
    ``sortings``: comparisons with metrics that label answers.
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
    """Write a sheet of at most ``sample`` answers and return their number. The sheet hides the judge's verdicts.

    The sample is stratified by phase, style, aspect and verdict (largest remainders) and shuffled with the seed. Each
    metric that labels answers, such as ``error-types``, has an empty column. Raises BadRun if the run
    has not been judged or has no text answers.
    """
    _judge, records = _records(folder, catalog, judge=judge, data_dir=data_dir)
    answers = (item for record in records for item in labeled_answers(record, folder))
    drawn = stratified(answers, sample, seed)
    if not drawn:
        raise BadRun(f"{folder.path} has no text answers to label", hint="ke report shows its content")
    sorts = [name for name in catalog.names("metric") if labels_of(catalog, name)]
    write_sheet(to, (*MARKS, *sorts, *ABOUT), [_row(item) for item in drawn])
    return len(drawn)


def read_labels(
    folder: RunFolder, catalog: Catalog, sheet: Path, *, judge: str = "", options: Options = NONE, data_dir: str = ""
) -> LabelSheet:
    """Compare the labels of a sheet with the judge's verdicts and with the labels of metrics.

    ``options``: options of these metrics. Raises BadData that names file and row.
    """
    chosen = choose_labeling_metric(catalog, options)
    component, records = _records(folder, catalog, judge=judge, data_dir=data_dir)
    by_id, of_sheet = _listed(sheet, folder, records)
    seen: dict[str, int] = {}
    found: list[tuple[LabeledAnswer, str]] = []
    sorted_: dict[str, dict[Place, str]] = {each.component.name: {} for each in chosen}
    waiting = 0
    for row, cells in read_sheet(sheet, MARKS):
        where = f"{sheet}, row {row}"
        name = cells.get("item", "").strip()
        if name not in by_id:
            raise BadData(
                f"{where}: item {name[:40]!r} is not an answer of {folder.path}",
                hint="use the run that the sheet was written for; its records must be unchanged",
            )
        if name in seen:
            raise BadData(f"{where}: item {name!r} is already in row {seen[name]}", hint="delete one of the rows")
        seen[name] = row
        label = _label(cells, "label", LABELS, where)
        for metric, places in sorted_.items():
            if kind := _label(cells, metric, labels_of(catalog, metric), where):
                if not label:
                    raise BadData(
                        f"{where}: {metric} is {kind!r}, but the label is empty",
                        hint="set the label to wrong or pre-edit too",
                    )
                places[by_id[name].place] = kind
        if label:
            found.append((by_id[name], label))
        else:
            waiting += 1
    if not found:
        raise BadData(f"{sheet} has no labels yet", hint=f"fill the column label with one of {', '.join(LABELS)}")
    seed = folder.spec.seed
    sortings = [
        compare_labels(sort(each, catalog, of_sheet), by_hand, seed=seed)
        for each in chosen
        if (by_hand := sorted_[each.component.name])
    ]
    return evolve(_agreement(component, found, waiting, seed=seed), sortings=tuple(sortings))


def _listed(
    sheet: Path, folder: RunFolder, records: Iterable[CaseRecord]
) -> tuple[dict[str, LabeledAnswer], list[CaseRecord]]:
    """Return the answers in the sheet by id, and their cases."""
    wanted = {cells.get("item", "").strip() for _number, cells in read_sheet(sheet, MARKS)}
    by_id: dict[str, LabeledAnswer] = {}
    cases: list[CaseRecord] = []
    for record in records:
        if own := {item.id: item for item in labeled_answers(record, folder) if item.id in wanted}:
            by_id |= own
            cases.append(record)
    return by_id, cases


def _label(cells: Mapping[str, str], column: str, labels: Sequence[str], where: str) -> str:
    """Return the label in that column, or an empty string. Raises BadData for an unknown label."""
    found = cells.get(column, "").strip().lower()
    if found and found not in labels:
        raise BadData(f"{where}: {column} {found[:40]!r} is unknown: use one of {', '.join(labels)}")
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


def _records(
    folder: RunFolder, catalog: Catalog, *, judge: str, data_dir: str
) -> tuple[Component, Iterator[CaseRecord]]:
    return records_of(folder, recorded_run(folder, catalog, data_dir).cases, judge=judge)


def labeled_answers(record: CaseRecord, folder: RunFolder) -> Iterator[LabeledAnswer]:
    """Yield the text answers of a case."""
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
                    pre_edit=_names(query.pre_edit) if query.pre_edit else "",
                    answer=outcome.reply,
                    verdict=outcome.judgment.verdict,
                )


def _id(folder: RunFolder, *where: str | Reply) -> str:
    """Return an id that starts with a letter: a spreadsheet would read 12e45 as a number."""
    return "q" + digest([folder.id, *(part if isinstance(part, str) else to_json(part) for part in where)])[:15]


def _names(gold: Gold) -> str:
    return gold.words(lambda entity: " / ".join(entity.names))


def _row(item: LabeledAnswer) -> dict[str, str]:
    raw = item.answer.raw.strip()
    return {
        "item": item.id,
        "question": item.question,
        "answer": item.answer.text,
        "gold answer": item.gold,
        "pre-edit answer": item.pre_edit,
        "raw output": "" if raw == item.answer.text.strip() else raw,
        "source": f"case {item.case}, {item.query}, {item.phase} editing, {item.style}",
    }


def stratified(every: Iterable[LabeledAnswer], sample: int, seed: int) -> list[LabeledAnswer]:
    """Sample each stratum in proportion to its size. Orders depend on a hash of seed and item.

    Of each stratum, the first ``sample`` answers in that order are in memory.
    """

    def shuffled(item: LabeledAnswer) -> bytes:
        return hashlib.sha256(f"{seed}/label/{item.id}".encode()).digest()

    sizes: Counter[tuple[str, ...]] = Counter()
    firsts: dict[tuple[str, ...], list[LabeledAnswer]] = {}
    for item in every:
        sizes[item.stratum] += 1
        first = firsts.setdefault(item.stratum, [])
        first.append(item)
        if len(first) > 2 * sample:
            first[:] = sorted(first, key=shuffled)[:sample]
    if not sizes:
        return []
    share = min(1.0, sample / sizes.total())
    taken = {stratum: int(size * share) for stratum, size in sizes.items()}
    remainders = sorted(sizes, key=lambda of: (taken[of] - sizes[of] * share, of))
    for stratum in remainders[: min(sample, sizes.total()) - sum(taken.values())]:
        taken[stratum] += 1
    drawn = (item for of, first in firsts.items() for item in sorted(first, key=shuffled)[: taken[of]])
    return sorted(drawn, key=shuffled)
