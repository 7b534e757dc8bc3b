"""The lifelong curve: what is left of the edits, and of the model, after 1 to 1,000 edits.

    python benchmarks/lifelong.py --device cuda --jobs 12 --minutes 60
    OMP_NUM_THREADS=1 python benchmarks/lifelong.py --methods none,memit --edits 20 --batch 5 --every 2 --fresh 1:2
    python benchmarks/lifelong.py --collect

Each method edits one model in sequence, ``--batch`` edits per step, without restoring it. After every ``--every``
steps, ``--eval-limit`` of the edits are evaluated, if they have been made. ``--fresh SIZE:EDITS`` adds points before
the first evaluation: EDITS edits, SIZE of them at a time on the unedited model. Their mean is a point of the curve.
With SIZE 1, the metric ``wild`` scores the edits with and without teacher forcing too.

Each method has a process of its own, ``--jobs`` at a time, and run folders in ``--out``. The same command resumes a
method that was interrupted, or stopped by the time limit ``--minutes``. ``--collect`` reads the run folders and writes
the JSON file of results; it includes the evaluated steps of unfinished runs. Methods that are not installed are left
out. ``--table`` prints the results, and ``scripts/pictures.py`` draws them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import transformers
from attrs import field, frozen
from opening import add_model
from published import add_data_dir

import ke_core as ke
from ke_core.app import Catalog, RunFolder, installed_catalog, judge_folder, load_report, score_folder
from ke_core.runner.evaluate import evaluate, prepare
from ke_core.runner.run import EvalRequest
from ke_core.spec.errors import BadRun, UnknownComponent
from ke_core.spec.results import MetricScore
from ke_core.spec.runspec import Plan
from ke_testing.fakes import SilentProgress

RESULTS = Path(__file__).with_suffix(".json")
DATASET, SETUP, SEQUENCE, FRESH = "mquake-cf-3k", "setup.json", "sequence", "fresh-"
ASPECTS = (
    "efficacy-probability", "efficacy", "paraphrase-probability", "paraphrase", "locality-probability",
    "locality-word", "locality", "perplexity",
)  # fmt: skip
ABILITIES = ("ke_choice/acc", "ke_context/acc", "ke_generate/exact_match/first-word", "ke_text/word_perplexity")
FORCED = ("efficacy-tokens", "efficacy-generated", "paraphrase-tokens", "paraphrase-generated")  # of single edits
COSTS = ("seconds", "memory", "device-memory")
METRICS, OPTIONAL = ("classic", "drift", "cost"), "lm-eval"
GRACE_SECONDS = 10.0  # for a process to save its progress


@frozen(kw_only=True)
class Method:
    """An editor and its options. ``slow``: trains edit by edit, so its shortest run is the first one."""

    editor: str
    options: Mapping[str, Mapping[str, str]] = field(factory=dict)
    slow: bool = False


METHODS = {
    "none": Method(editor="none"),
    "memit": Method(editor="memit"),
    "alphaedit": Method(editor="alphaedit"),
    "ultraedit": Method(editor="ultraedit"),
    "locft-bf": Method(editor="ft", options={"ft": {"profile": "locft-bf"}}),
    "encore": Method(editor="memit+key-history+encore", options={"key-history": {"keys": "solved"}}),
    "memit+prune": Method(editor="memit+prune"),
    "memit+key-history": Method(editor="memit+key-history"),
    "memit+revive": Method(editor="memit+revive", options={"revive": {"energy": "0.5"}}),
    "memit+nas": Method(editor="memit+nas"),
    "memit+rect": Method(editor="memit+rect"),
    "nse": Method(editor="nse"),
    "emmet": Method(editor="emmet"),
    "lora": Method(editor="lora"),
    "grace": Method(editor="grace", slow=True),
    "melo": Method(editor="melo", slow=True),
    "wise": Method(editor="wise", options={"wise": {"contexts": "0"}}, slow=True),
    "rag": Method(editor="rag", options={"rag": {"gate": "threshold"}}),
    "scr": Method(editor="scr"),
    "serac": Method(editor="serac"),
}
"""The methods by their names in the chart. ``encore`` is the published combination. ``wise`` has no left contexts, with
which 1,000 edits take five times as long. ``serac`` needs ``ke train serac`` first."""


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    add_data_dir(parser)
    parser.add_argument("--methods", default=",".join(METHODS), help="separated by commas")
    parser.add_argument("--edits", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=100, help="edits per step")
    parser.add_argument("--every", type=int, default=5, help="evaluate after every N steps")
    parser.add_argument("--eval-limit", type=int, default=200, help="number of edits that are evaluated")
    parser.add_argument("--fresh", default="1:20,10:50,100:100", metavar="SIZE:EDITS,...", help="see above")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes at a time")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="time limit; the same command resumes")
    parser.add_argument("--out", type=Path, default=Path("runs/lifelong"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--collect", action="store_true", help="write the results of the run folders, and run nothing")
    parser.add_argument("--table", action="store_true", help="print the results as a table, and run nothing")
    parser.add_argument("--one", metavar="METHOD", help=argparse.SUPPRESS)
    return parser.parse_args()


def plans(given: argparse.Namespace, method: Method) -> list[tuple[str, Plan]]:
    """Return the name and the plan of each run of a method, in order."""
    every, limit = given.every, given.eval_limit
    found = [(SEQUENCE, Plan(limit=given.edits, size=given.batch, sequential=True, eval_every=every, eval_limit=limit))]
    for size, edits in (map(int, text.split(":")) for text in given.fresh.split(",") if text):
        found.insert(1, (f"{FRESH}{size}", Plan(limit=edits, size=size)))
    return found[::-1] if method.slow else found


def metrics_of(plan: Plan, catalog: Catalog) -> tuple[str, ...]:
    """Return the metrics of a run. ``lm-eval`` is one of them if it is installed: it has 40 dependencies."""
    if plan.size == 1:
        return (*METRICS, "wild")
    return (*METRICS, OPTIONAL) if OPTIONAL in catalog.names("metric") else METRICS


def run_one(name: str, given: argparse.Namespace) -> None:
    """Run or resume every run of a method in this process."""
    method, catalog, progress = METHODS[name], installed_catalog(), SilentProgress()
    model = ke.load(given.model, dtype=given.dtype, device=given.device)
    for run_name, plan in plans(given, method):
        request = EvalRequest(
            editor=method.editor, dataset=DATASET, model=model.choice, plan=plan, edited_form="cloze",
            options={"mquake": {"view": "edits"}, **method.options},
            metrics=metrics_of(plan, catalog),
            data_dir=_family_folder(given),
        )  # fmt: skip
        run = prepare(request, catalog, progress, model=model.model)
        evaluate(run, RunFolder.create(given.out / name / run_name, run.spec, run.files))


def run_all(given: argparse.Namespace, names: list[str]) -> None:
    """Run each method in a process of its own, and interrupt those that the time limit meets."""
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / SETUP).write_text(json.dumps(setup(given), indent=1) + "\n", encoding="utf-8")
    deadline = time.monotonic() + 60 * given.minutes
    threads = str(max(1, (os.cpu_count() or 1) // given.jobs))

    def run(name: str) -> None:
        command = [sys.executable, __file__, *sys.argv[1:], "--one", name]
        with (given.out / f"{name}.log").open("a", encoding="utf-8") as log:
            began = time.monotonic()
            if began >= deadline:
                return
            process = subprocess.Popen(  # noqa: S603  this script
                command, stdout=log, stderr=log, env={"OMP_NUM_THREADS": threads, **os.environ}
            )
            try:
                state = f"exit status {process.wait(timeout=max(0.0, deadline - began))}"
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(timeout=GRACE_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                state = "stopped by the time limit"
        print(f"{name:20} {time.monotonic() - began:6.0f} s, {state}", flush=True)

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(run, names))


def _family_folder(given: argparse.Namespace) -> str:
    return str(given.data_dir / "mquake")


def setup(given: argparse.Namespace) -> dict[str, Any]:
    """Return what the results depend on, besides the methods."""
    cuda = torch.cuda.is_available() and given.device.startswith("cuda")
    return {
        "model": given.model, "dtype": given.dtype, "dataset": DATASET,
        "device": torch.cuda.get_device_name() if cuda else given.device, "jobs": given.jobs,
        "torch": torch.__version__, "transformers": transformers.__version__,
        "edits": given.edits, "batch": given.batch, "evaluated": given.eval_limit, "fresh": given.fresh,
    }  # fmt: skip


def collect(out: Path, data_dir: str) -> dict[str, Any]:
    """Return the results of every run in ``out``. An unfinished run is judged and scored with what it has."""
    found = {}
    for name, method in METHODS.items():
        runs = {
            path.name: scores_of(path, data_dir) for path in sorted((out / name).glob("*")) if RunFolder.is_one(path)
        }
        if any(runs.values()):
            costs = {
                score.aspect: score.value
                for score in runs.get(SEQUENCE, ())
                if score.metric == "cost" and score.aspect in COSTS and not score.tags
            }
            found[name] = {"editor": method.editor, "options": method.options, **costs, "points": points(runs)}
    return {**json.loads((out / SETUP).read_text(encoding="utf-8")), "methods": found}


def scores_of(path: Path, data_dir: str) -> tuple[MetricScore, ...]:
    """Return the scores of the edited model; none if the run was stopped before its first case."""
    folder, catalog = RunFolder.open(path), installed_catalog()
    if not folder.finished:
        try:
            judge_folder(folder, catalog, data_dir=data_dir)
            score_folder(folder, catalog, metrics=metrics_of(folder.spec.plan, catalog), data_dir=data_dir)
        except BadRun:
            return ()
    scores = load_report(folder, catalog, data_dir=data_dir).scores
    return tuple(score for score in scores if score.phase == "after")


def points(runs: Mapping[str, tuple[MetricScore, ...]]) -> list[dict[str, Any]]:
    """Return one point for each number of edits, with the value of each aspect."""
    found: dict[int, dict[str, Any]] = {}
    for name, scores in runs.items():
        for score in scores:
            made = score.tags.get("edits made") if name == SEQUENCE else name.removeprefix(FRESH)
            if (
                score.aspect not in ASPECTS + ABILITIES + FORCED
                or made is None
                or len(score.tags) != (name == SEQUENCE)
            ):
                continue
            point = found.setdefault(int(made), {"edits": int(made), "sequence": name == SEQUENCE})
            point[score.aspect] = score.value
            point["n"] = max(score.n, point.get("n", 0))
    return [found[made] for made in sorted(found)]


def table(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| method | edits | n | {' | '.join(ASPECTS)} |"
    yield f"| --- | --- | --- |{' --- |' * len(ASPECTS)}"
    for name, method in results["methods"].items():
        for at in method["points"]:
            cells = [_shown(aspect, at.get(aspect)) for aspect in ASPECTS]
            yield f"| `{name}` | {at['edits']:,} | {at['n']} | {' | '.join(cells)} |"


def _shown(aspect: str, value: float | None) -> str:
    if value is None:
        return "-"
    if aspect != "perplexity":
        return f"{100 * value:.1f}"
    return f"{value:,.1f}" if value < 1e5 else f"{value:.1e}"


def main() -> None:
    """Run what is missing, and write the results."""
    given = read_options()
    if given.table:
        print("\n".join(table(json.loads(given.results.read_text(encoding="utf-8")))))
        return
    if given.one:
        run_one(given.one, given)
        return
    names, catalog = [], installed_catalog()
    for name in given.methods.split(","):
        try:
            catalog.spec("editor", METHODS[name].editor)
        except UnknownComponent as missing:
            print(f"{name} is left out: {missing}")
        else:
            names.append(name)
    if not given.collect:
        run_all(given, names)
    given.results.write_text(json.dumps(collect(given.out, _family_folder(given)), indent=1) + "\n", encoding="utf-8")
    print(f"{given.results} written")


if __name__ == "__main__":
    main()
