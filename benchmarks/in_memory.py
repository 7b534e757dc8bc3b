"""The references of ``records.py``: the same work with every case and every answer in memory.

    python benchmarks/in_memory.py html RUN OTHER report.html      # the written page
    python benchmarks/in_memory.py compare RUN OTHER compare.json  # the written comparison
    python benchmarks/in_memory.py annotate RUN OTHER sheet.csv    # the written sheet of RUN

Each compares its result with the file that the command has written, and exits with 1 if they differ.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
import sys
from base64 import b64decode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from ke_core.app import Catalog, RunFolder, discover, load_runs, measures_of, read_catalog, recorded_run, records_of
from ke_core.plugin import Metric, to_json
from ke_plugin_analysis.annotating import LabeledAnswer, labeled_answers
from ke_plugin_analysis.comparing import compare_records
from ke_plugin_analysis.export import browsed_runs
from ke_plugin_analysis.html.browser import browser
from ke_plugin_analysis.html.document import embedded
from ke_plugin_analysis.observations import VERDICTS_SPEC, Verdicts
from ke_plugin_analysis.opening import open_runs
from ke_plugin_analysis.pairs import corrected

Folders = Sequence[RunFolder]


def page(folders: Folders, catalog: Catalog, written: Path) -> bool:
    """Return whether the cases of the page are those of one JSON value with all cases of the first run."""
    (run,) = browsed_runs(load_runs(folders[:1], catalog), catalog)
    material = evolve(run.material, cases=tuple(run.material.cases))
    whole = browser([evolve(run, answers=dict(run.answers), material=material)])
    print(f"one JSON value: {len(embedded(whole)) / 2**20:.1f} MiB, page: {written.stat().st_size / 2**20:.1f} MiB")
    return written_cases(written.read_text(encoding="utf-8")) == _with_prompts(whole)


def written_cases(text: str) -> list[dict[str, Any]]:
    """Return the cases of a page, from its JSON or from its compressed blocks."""
    data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    whole = json.loads(data[1])
    if "cases" in whole:
        return _with_prompts(whole)
    blocks = re.findall(r'id="cases-\d+">(.*?)</script>', text)
    return [case for block in blocks for case in _with_prompts(json.loads(gzip.decompress(b64decode(block))))]


def _with_prompts(block: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cases with the texts of their prompts, because blocks number texts differently."""
    for case in block["cases"]:
        for answer in case["answers"]:
            for reply in (answer.get("before", {}), answer.get("after", {})):
                reply["prompt"] = [block["texts"][at] for at in reply.get("prompt", ())]
    found: list[dict[str, Any]] = block["cases"]
    return found


def comparison(folders: Folders, catalog: Catalog, written: Path) -> bool:
    """Return whether a comparison of two lists with every record gives the written differences and changes."""
    runs = open_runs(folders, catalog, judge="", data_dir="")
    order = {case: place for place, case in enumerate(runs[0].order)}
    chosen = measures_of(folders[0], catalog, runs[0].known.spec)
    measures = [(one.metric, one.spec) for one in chosen if isinstance(one.metric, Metric)]
    measures.append((Verdicts(), VERDICTS_SPEC))
    records = [[*run.first(order)] for run in runs]
    found = compare_records(records, measures, order, seed=folders[0].spec.seed, listing=True)
    (table,) = corrected(found.differences)
    (raw,) = json.loads(written.read_text(encoding="utf-8"))["against_first"]
    rows = [{**to_json(one), "difference": one.difference} for one in table]
    expected = {"differences": rows, "changed": to_json(found.changed[0].listed)}
    return bool({name: raw[name] for name in expected} == json.loads(json.dumps(expected)))


def sheet(folders: Folders, catalog: Catalog, written: Path) -> bool:
    """Return whether a stratified sample from a list of all answers has the rows of the written sheet."""
    _judge, records = records_of(folders[0], recorded_run(folders[0], catalog).cases)
    every = [answer for record in [*records] for answer in labeled_answers(record, folders[0])]
    with written.open(encoding="utf-8-sig", newline="") as stream:
        rows = [row["item"] for row in csv.DictReader(stream)]
    return [answer.id for answer in sampled(every, len(rows))] == rows


def sampled(every: Sequence[LabeledAnswer], sample: int) -> list[LabeledAnswer]:
    """Sample each stratum in proportion to its size, with the seed 0 (largest remainders)."""

    def shuffled(answer: LabeledAnswer) -> bytes:
        return hashlib.sha256(f"0/label/{answer.id}".encode()).digest()

    strata: dict[tuple[str, ...], list[LabeledAnswer]] = {}
    for answer in sorted(every, key=shuffled):
        strata.setdefault(answer.stratum, []).append(answer)
    share = sample / len(every)
    taken = {stratum: int(len(answers) * share) for stratum, answers in strata.items()}
    for stratum in sorted(strata, key=lambda of: (taken[of] - len(strata[of]) * share, of))[
        : sample - sum(taken.values())
    ]:
        taken[stratum] += 1
    return sorted((one for stratum, answers in strata.items() for one in answers[: taken[stratum]]), key=shuffled)


WORK: dict[str, Callable[[Folders, Catalog, Path], bool]] = {"html": page, "compare": comparison, "annotate": sheet}


def main() -> None:
    """Do the work of the command line, and exit with 1 if its result is not the written one."""
    what, *runs, written = sys.argv[1:]
    if not WORK[what]([RunFolder.open(Path(run)) for run in runs], read_catalog(discover()), Path(written)):
        raise SystemExit(f"{what}: {written} differs from the reference")


if __name__ == "__main__":
    main()
