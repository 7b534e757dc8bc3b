"""Judge, score, report, compare and annotate large runs from their records, each in a separate process without a model.

    OMP_NUM_THREADS=1 python benchmarks/records.py --cases 10000
    OMP_NUM_THREADS=1 python benchmarks/records.py --cases 1000 --cases 10000    # does memory grow?
    OMP_NUM_THREADS=1 python benchmarks/records.py --resume 100000               # how long does a run take to resume?

The script exits with 1 if the peak memory of the largest run exceeds that of the smallest by more than ``--growth``.
Cases are read one after another, and only a few bytes per line and value are kept. ``compare --json`` may grow, because
it prints every changed answer. Rows with "in memory" are the references (``in_memory.py``): the same work with every
case and answer in memory. The script exits with 1 if the page, the comparison or the sheet differs from the reference.

The runs are synthetic: cases of two hops whose answers, with raw text, steps and tokens, are written as records, two
lines per case (before and after editing). Times include the start of Python, as ``--help`` does.

``--resume`` evaluates the baseline ``parrot`` on as many cases, then starts the same command again, and once more
without the judgments and the last 1,000 replies. The scores must be identical.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
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
IN_MEMORY = Path(__file__).with_name("in_memory.py")
WHOLE = "compare --json"
"""The command that prints something about every case."""
START = """import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_child, status, used = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)"""
"""Starts a process from a small one: the peak memory of a process includes that of the process that started it."""
LOST = 1_000
"""Records that an interrupted run has lost."""


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
    name: str, text: str, gold: Entity, pre_edit: Entity | None, *, edit: str = "", hops: tuple[Query, ...] = ()
) -> Query:
    old = None if pre_edit is None else Gold(entities=(pre_edit,))
    return Query(id=name, texts=(text,), gold=Gold(entities=(gold,)), pre_edit=old, edit=edit or None, hops=hops)


def records(cases: int, together: int, shift: int) -> Iterator[Record]:
    """Yield the answers of the unedited model, then, batch by batch, those of the edited one.

    ``shift``: runs with different ones have different answers after editing.
    """
    for number in range(cases):
        yield _replied(case(number), BASE, number)
    for start in range(0, cases, together):
        members = range(start, min(start + together, cases))
        name = f"batch-{start // together}"
        yield Batch(batch=name, cases=tuple(map(str, members)), edits=len(members), seconds=1.5 * len(members))
        for number in members:
            yield _replied(case(number), name, number + shift)


def _replied(of: Case, batch: str, number: int) -> Replied:
    """Return right, pre-edit and wrong answers in turn; before editing the old answer is right."""
    before = batch == BASE
    replies: dict[str, Reply] = {}
    for at, query in enumerate({query.id: query for probe in of.probes for query in probe.queries}.values()):
        if before and query.pre_edit is None:
            continue
        right = query.pre_edit if before and query.pre_edit else query.gold
        said = (right, query.pre_edit or right, None)[(number + at) % 3]
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


def make(folder: Path, cases: int, together: int) -> None:
    """Write a file of cases, and two runs ``told`` and ``other`` over it that are recorded but not judged."""
    file = write_dataset(folder, cases)
    dataset = resolve_component(read_catalog(discover()), "dataset", "cases", {"cases": {"file": str(file)}})
    known = DataRef(component=dataset.component, sha256=dataset.build().info().sha256)
    for shift, name in enumerate(("told", "other")):
        spec = RunSpec(
            ke="0.1.0",
            model=ModelRef(source="hf", id="made-up", digest="0" * 64, dtype="float32"),
            editor=Component(name=name, distribution="", version="1"),
            dataset=known,
            styles=(STYLE,),
            plan=Plan(size=together),
            edited_form="question",
        )
        run = RunFolder.create(folder / name, spec)
        with run.writing() as writer:
            rows = records(cases, together, shift)
            while some := [*islice(rows, LOST)]:
                writer.append(some)


def write_dataset(folder: Path, cases: int) -> Path:
    """Write the file of cases."""
    file = folder / "cases.jsonl"
    header = CaseHeader(name="made-up", aspects=(EFFICACY, "instance", "multi-hop"), cases=cases)
    write_cases(file, header, map(case, range(cases)))
    return file


def timed(*command: str, to: Path | None = None, note: str = "") -> float:
    """Run a command, print its wall seconds, CPU seconds and peak MiB, and return the peak. ``to``: its output."""
    start = time.monotonic()
    words = [sys.executable, "-S", "-c", START, sys.executable, *command]
    output = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout  # noqa: S603  our own command
    text, _line, last = output.decode().rstrip().rpartition("\n")
    status, cpu, peak = last.split()
    if status != "0":
        raise SystemExit(f"{' '.join(command)} ended with {status}: {text}")
    if to is not None:
        to.write_text(text, encoding="utf-8")
    note = text if command[0].endswith("in_memory.py") else note
    print(f"  {time.monotonic() - start:7.1f} s  ({float(cpu):6.1f} s CPU)  {float(peak):7.0f} MiB  {note}", flush=True)
    return float(peak)


def measure(cases: int, together: int) -> dict[str, float]:
    """Write runs of ``cases`` cases, print a line for each command, and return their peak memory in MiB."""
    peaks = {}
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # memory of this process stays small
            pool.submit(make, where, cases, together).result()
        told, other = str(where / "told"), str(where / "other")
        os.environ["KE_CACHE_DIR"] = str(where / "cache")
        size = (where / "told" / "records.jsonl").stat().st_size / 2**20
        print(f"{cases:,} cases, {2 * cases:,} lines of replies, {size:.0f} MiB")
        html, text, sheet = (where / name for name in ("report.html", "compare.json", "sheet.csv"))
        commands = {
            "--help": ("--help",),
            "judge": ("judge", told, "--judge", "alias"),
            "judge other": ("judge", other, "--judge", "alias"),
            "score": ("score", told),
            "report": ("report", told),
            "report --csv": ("report", told, "--csv", str(where / "scores.csv")),
            "report --html": ("report", told, "--html", str(html)),
            "compare": ("compare", told, other),
            WHOLE: ("compare", told, other, "--json"),
            "annotate": ("annotate", told, "--out", str(sheet)),
        }
        for name, command in commands.items():
            print(f"  {name:<20}", end="")
            peaks[name] = timed("-m", "ke_core", *command, to=text if name == WHOLE else None)
        for name, written in (("html", html), ("compare", text), ("annotate", sheet)):
            print(f"  {name + ', in memory':<20}", end="")
            timed(str(IN_MEMORY), name, told, other, str(written))
    return peaks


def resume(cases: int) -> None:
    """Evaluate ``parrot``, then start the same command again: after it finished, and without its last records."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        run, file = where / "run", write_dataset(where, cases)
        os.environ["KE_CACHE_DIR"] = str(where / "cache")
        words = ("--editor", "parrot", "--dataset", "cases", "-o", f"cases.file={file}", "--batch", "100")
        scores = []
        for name in ("all requests", "finished", "interrupted"):
            if name == "interrupted":
                lines = (run / "records.jsonl").read_bytes().splitlines(keepends=True)
                kept = [line for line in lines if b'"kind":"judged"' not in line][:-LOST]
                (run / "records.jsonl").write_bytes(b"".join(kept))
                for derived in ("scores.json", "records.seal.json"):
                    (run / derived).unlink()
            print(f"  {name:<20}", end="")
            timed("-m", "ke_core", "eval", *words, "--out", str(run))
            scores.append((run / "scores.json").read_bytes())
        phases = [line for line in RunFolder.open(run).logged() if line["event"] == "phase"]
    last = {line["phase"]: line["cpu_seconds"] for line in phases}
    print("  interrupted: " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in last.items()) + " s CPU")
    if len(set(scores)) > 1:
        raise SystemExit("the scores of the resumed run differ")


def main() -> None:
    """Measure each size in turn, and compare the largest with the smallest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, action="append", help="number of cases; repeatable [default: 10000]")
    parser.add_argument("--together", type=int, default=100, help="cases that share one edited model")
    parser.add_argument("--growth", type=float, default=48, help="MiB from the smallest size to the largest [48]")
    parser.add_argument("--resume", type=int, default=0, help="only measure how a run of so many cases resumes")
    given = parser.parse_args()
    if given.resume:
        resume(given.resume)
        return
    peaks = {cases: measure(cases, given.together) for cases in given.cases or [10_000]}
    few, many = peaks[min(peaks)], peaks[max(peaks)]
    grown = {name: many[name] - few[name] for name in few if name != WHOLE}
    if over := [f"{name} by {rise:.0f} MiB" for name, rise in grown.items() if rise > given.growth]:
        raise SystemExit(f"memory grew by more than {given.growth:.0f} MiB: {', '.join(over)}")


if __name__ == "__main__":
    main()
