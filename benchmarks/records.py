"""Judge, score and report a large run from its records, each in a separate process without a model.

    OMP_NUM_THREADS=1 python benchmarks/records.py --cases 10000
    OMP_NUM_THREADS=1 python benchmarks/records.py --cases 2500 --cases 10000    # does memory grow?

The script exits with 1 if the peak memory of the largest run exceeds that of the smallest by more than ``--growth``.
Cases are read one after another, and only a few bytes per line and value are kept. ``report --html`` may grow, because
its page contains every case.

The run is synthetic: cases of two hops whose answers, with raw text, steps and tokens, are written as records, two
lines per case (before and after editing). Then ``ke judge``, ``ke score`` and ``ke report`` read it, each in a separate
process. Their times include the start of Python.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ke_benchmarks.files.cases import CaseHeader, write_cases
from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.results.folder import RunFolder
from ke_core.runner.resolve import resolve_component
from ke_core.spec.facts import Cloze, Edit, Entity, Fact, Relation
from ke_core.spec.queries import EFFICACY, Case, Gold, Phase, Probe, Query
from ke_core.spec.records import Batch, Record, Replied
from ke_core.spec.results import Answer, Cost, Reply, Step
from ke_core.spec.runspec import Component, DataRef, ModelRef, Plan, RunSpec

LIVES = Relation(label="lives in", id="R1", cloze="{} lives in", question="In which city does {} live?")
LIES = Relation(label="lies in", id="R2", cloze="{} lies in", question="In which country does {} lie?")
CITIES, COUNTRIES = 997, 89
"""Numbers without a common factor: names do not come in step."""
STYLE, BASE = "direct", "base"
WHOLE = "report --html"
"""The command that holds every case."""


def city(number: int) -> Entity:
    """Return a city with two aliases."""
    at = number % CITIES
    return Entity(label=f"Town {at}", aliases=(f"City of {at}", f"T. {at}"))


def country(number: int) -> Entity:
    """Return the country of a city."""
    at = number % CITIES % COUNTRIES
    return Entity(label=f"Land {at}", aliases=(f"Republic of {at}",))


def case(number: int) -> Case:
    """Return a case: a person moves; three wordings query the country, two questions the hops."""
    person, old, new = Entity(label=f"Person {number}"), number, number * 7 + 1
    edit = Edit(
        id=f"e{number}",
        statement=f"{person.label} lives in {city(new).label}",
        before=Fact(subject=person, relation=LIVES, objects=(city(old),)),
        after=Fact(subject=person, relation=LIVES, objects=(city(new),)),
        cloze=Cloze(template="{} lives in", subject=person.label),
        question=f"In which city does {person.label} live?",
    )
    where = _query("hop-1", edit.question or "", city(new), city(old), edit=edit.id)
    lies = _query("hop-2", f"In which country does {city(new).label} lie?", country(new), None)
    wordings = ("In which country does {} live?", "What is the country where {} lives?", "{} lives in which country?")
    asked = tuple(
        _query(f"multi-hop-{at}", words.format(person.label), country(new), country(old), hops=(where, lies))
        for at, words in enumerate(wordings)
    )
    probes = (
        Probe(id="own", aspect=EFFICACY, queries=(where,), edits=(edit.id,), phase="both"),
        Probe(id="instance", aspect="instance", queries=(where, lies), require="all", edits=(edit.id,)),
        Probe(id="multi-hop", aspect="multi-hop", queries=asked, phase="both", edits=(edit.id,)),
    )
    return Case(id=str(number), edits=(edit,), probes=probes, tags={"hops": str(2 + number % 3), "edits": "1"})


def _query(
    name: str, text: str, gold: Entity, stale: Entity | None, *, edit: str = "", hops: tuple[Query, ...] = ()
) -> Query:
    old = None if stale is None else Gold(entities=(stale,))
    return Query(id=name, texts=(text,), gold=Gold(entities=(gold,)), stale=old, edit=edit or None, hops=hops)


def records(cases: int, together: int) -> Iterator[Record]:
    """Yield the answers of the unedited model, then, batch by batch, those of the edited one."""
    for number in range(cases):
        yield _replied(case(number), BASE, number)
    for start in range(0, cases, together):
        members = range(start, min(start + together, cases))
        name = f"batch-{start // together}"
        yield Batch(batch=name, cases=tuple(map(str, members)), edits=len(members), seconds=1.5 * len(members))
        for number in members:
            yield _replied(case(number), name, number)


def _replied(of: Case, batch: str, number: int) -> Replied:
    """Return right, stale and wrong answers in turn; before editing the old answer is right."""
    before = batch == BASE
    replies: dict[str, Reply] = {}
    for at, query in enumerate({query.id: query for probe in of.probes for query in probe.queries}.values()):
        if before and query.stale is None:
            continue
        right = query.stale if before and query.stale else query.gold
        said = (right, query.stale or right, None)[(number + at) % 3]
        text = said.entities[0].names[number % 2] if said else f"nobody knows {number % 50}"
        step = Step(kind="subquestion", text=query.texts[0], retrieved=(f"e{number}",), scores=(0.7,), answer=text)
        replies[query.id] = Answer(
            text=text,
            raw=f" First, look at what is known of {query.texts[0]} It follows from that. Answer: {text}\n",
            steps=(step,),
            cost=Cost(calls=2, prompt_tokens=800, tokens=24),
        )
    phase: Phase = "before" if before else "after"
    return Replied(batch=batch, case=of.id, phase=phase, style=STYLE, replies=replies, seconds=0.1)


def make(folder: Path, cases: int, together: int) -> Path:
    """Write a file of cases and a run over it that is recorded but not judged."""
    file = folder / "cases.jsonl"
    header = CaseHeader(name="made-up", aspects=(EFFICACY, "instance", "multi-hop"), cases=cases)
    write_cases(file, header, map(case, range(cases)))
    dataset = resolve_component(read_catalog(discover()), "dataset", "cases", {"cases": {"file": str(file)}})
    spec = RunSpec(
        ke="0.1.0",
        model=ModelRef(source="hf", id="made-up", digest="0" * 64, dtype="float32"),
        editor=Component(name="told", distribution="", version="1"),
        dataset=DataRef(component=dataset.component, sha256=dataset.build().info().sha256),
        styles=(STYLE,),
        plan=Plan(size=together),
        edited_form="question",
    )
    run = RunFolder.create(folder / "run", spec)
    with run.writing() as writer:
        writer.append(records(cases, together))
    return run.path


def timed(*command: str) -> tuple[float, float, float]:
    """Return wall seconds, CPU seconds and peak MiB of one ``ke`` command."""
    start = time.monotonic()
    words = [sys.executable, "-m", "ke_core", *command]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603  our own command
    _pid, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"ke {' '.join(command)} ended with {process.returncode}")
    return time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**10


def measure(cases: int, together: int) -> dict[str, float]:
    """Write a run of ``cases`` cases, print a line for each command, and return their peak memory in MiB."""
    peaks = {}
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        run = make(where, cases, together)
        os.environ["KE_CACHE_DIR"] = str(where / "cache")
        print(
            f"{cases:,} cases, {2 * cases:,} lines of replies, {(run / 'records.jsonl').stat().st_size / 2**20:.0f} MiB"
        )
        commands = {
            "judge": ("judge", str(run), "--judge", "alias"),
            "judge again": ("judge", str(run), "--judge", "alias", "-o", "alias.match=contains"),
            "score": ("score", str(run)),
            "report": ("report", str(run)),
            "report --csv": ("report", str(run), "--csv", str(where / "scores.csv")),
            WHOLE: ("report", str(run), "--html", str(where / "report.html")),
        }
        for name, command in commands.items():
            wall, cpu, peaks[name] = timed(*command)
            print(f"  {name:<14} {wall:7.1f} s  ({cpu:6.1f} s CPU)  {peaks[name]:7.0f} MiB", flush=True)
    return peaks


def main() -> None:
    """Measure each size in turn, and compare the largest with the smallest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, action="append", help="number of cases; repeatable [default: 10000]")
    parser.add_argument("--together", type=int, default=100, help="cases that share one edited model")
    parser.add_argument("--growth", type=float, default=32, help="MiB from the smallest size to the largest [32]")
    given = parser.parse_args()
    peaks = {cases: measure(cases, given.together) for cases in given.cases or [10_000]}
    few, many = peaks[min(peaks)], peaks[max(peaks)]
    grown = {name: many[name] - few[name] for name in few if name != WHOLE}
    if over := [f"{name} by {rise:.0f} MiB" for name, rise in grown.items() if rise > given.growth]:
        raise SystemExit(f"memory grew by more than {given.growth:.0f} MiB: {', '.join(over)}")


if __name__ == "__main__":
    main()
