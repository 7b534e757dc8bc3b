"""Norms of edits against the perplexity of unrelated text: the data behind the edit budget of ``ke plan``.

    OMP_NUM_THREADS=1 python benchmarks/budget.py --data-dir DIR --out runs/budget
    OMP_NUM_THREADS=1 python benchmarks/budget.py --data-dir DIR --out runs/budget --curves 'ultraedit;memit'
    python benchmarks/budget.py --out runs/budget --collect

Each curve edits the model with a growing number of edits of MQuAKE-CF-3k: at once, each time starting from the
unedited model, or in sequence. A point records, for each edited matrix, the norm and the largest singular value of its
update relative to those of the matrix, and the perplexity of the text of the metric ``drift``. No text is generated.

Points are appended to a file per curve in ``--out``. The same command resumes: points that exist are not measured
again. A sequence starts over, with the cached targets of its steps. ``--collect`` writes the JSON file of results.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import field, frozen
from opening import add_model
from published import add_data_dir
from torch import Tensor

import ke_core as ke
from ke_core.app import EditedModel, Model, installed_catalog, resolve_component
from ke_core.plugin import SourcedEdit
from ke_core.runner.plan import select
from ke_core.spec.runspec import Plan
from ke_plugin_drift.metric import nll
from ke_plugin_drift.passages import OWN, PASSAGE, read
from ke_plugin_facts.calibration import config_shape
from ke_weights.editing import active_deltas
from ke_weights.patches import combined
from ke_weights.patches.delta import dense_tensor

RESULTS = Path(__file__).with_suffix(".json")
DATASET, POOL, SETUP = "mquake-cf-3k", 1000, "setup.json"
ONCE = (1, 3, 10, 30)


@frozen(kw_only=True)
class EditCurve:
    """An editor, its options, and the numbers of edits. ``step``: edits per step of a sequence; 0: all at once.

    ``windows``: how many disjoint sets of edits are measured at most for each number of edits at once.
    """

    editor: str
    sizes: Sequence[int]
    step: int = 0
    options: Mapping[str, Any] = field(factory=dict)
    windows: int = 1


CURVES = {
    "memit": EditCurve(editor="memit", sizes=ONCE, windows=3),
    "alphaedit": EditCurve(editor="alphaedit", sizes=ONCE, windows=3),
    "emmet": EditCurve(editor="emmet", sizes=ONCE),
    "memit+rect": EditCurve(editor="memit+rect", sizes=ONCE),
    "ultraedit": EditCurve(editor="ultraedit", sizes=(1, 3, 10, 30, 100, 300)),
    "ultraedit, steps of 100": EditCurve(editor="ultraedit", sizes=range(100, 301, 100), step=100),
    "ft": EditCurve(editor="ft", sizes=(1, 3, 10, 30), options={"constrained": "false"}),
}
"""The edits of ``memit``, ``alphaedit`` and ``memit+rect`` share their cached targets."""


def edits_of(data: Path) -> list[SourcedEdit]:
    """Return the edits that ``ke eval --limit 1000`` samples, in file order."""
    options = {"mquake": {"data_dir": str(data / "mquake"), "view": "edits"}}
    cases = list(resolve_component(installed_catalog(), "dataset", DATASET, options).built.cases())
    return [SourcedEdit(edit=case.edits[0], source=DATASET, date="") for case in select(cases, Plan(limit=POOL), 0)]


def perplexity(answering: Model | EditedModel) -> float:
    """Return the perplexity of the unrelated text."""
    requests = [request for request in read(OWN) if request.id.startswith(PASSAGE)]
    return math.exp(
        nll({request.id: reply for request, reply in zip(requests, answering.replies(requests), strict=True)})
    )


class Sizes:
    """Sizes of updates relative to the unedited weights, which are measured once."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.weights: dict[str, Tensor] = {}

    def of(self, edited: EditedModel) -> dict[str, dict[str, float]]:
        """Return the sizes of the active updates."""
        deltas = active_deltas(edited)
        with edited.unedited():
            for name in deltas.keys() - self.weights.keys():
                self.weights[name] = torch.linalg.svdvals(self.module.get_parameter(name).detach().float())
        return {name: self._of(name, dense_tensor(combined(parts))) for name, parts in deltas.items()}

    def _of(self, name: str, update: Tensor) -> dict[str, float]:
        values, base = torch.linalg.svdvals(update.float()), self.weights[name]
        norm, top = float(values.norm()), float(values[0])
        return {"norm": norm / float(base.norm()), "top": top / float(base[0]), "rank": (norm / top) ** 2}


class PointFile:
    """The points of a curve in a file."""

    def __init__(self, path: Path, curve: EditCurve, sizes: Sizes, base: float) -> None:
        self.path, self.curve, self.sizes, self.base = path, curve, sizes, base
        self.points = points_in(path)

    def has(self, edits: int, first: int = 0) -> bool:
        """Return whether this point exists."""
        return any((one["edits"], one["first"]) == (edits, first) for one in self.points)

    def add(self, edited: EditedModel, first: int, began: float) -> None:
        """Measure the active edits, unless the point exists."""
        count = len(edited.edits)
        if self.has(count, first):
            return
        point: dict[str, Any] = {
            "edits": count, "first": first, "perplexity": perplexity(edited), "base": self.base,
            "weights": self.sizes.of(edited), "seconds": time.perf_counter() - began,
        }  # fmt: skip
        self.points.append(point)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(point) + "\n")
        largest = max(one["norm"] for one in point["weights"].values())
        print(f"{self.path.stem:26} {count:5} edits, first {first:4}: largest relative norm {largest:.4f}, "
              f"perplexity {point['perplexity']:.2f}, {point['seconds']:.0f} s", flush=True)  # fmt: skip


def points_in(path: Path) -> list[dict[str, Any]]:
    """Return the points of a file, without a line that was cut off."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def at_once(curve: EditCurve, model: Model, edits: Sequence[SourcedEdit], points: PointFile) -> None:
    """Measure each number of edits, starting from the unedited model: first the first edits, then the other windows."""
    for window in range(curve.windows):
        for size in curve.sizes:
            first = window * size
            if first + size > max(curve.sizes) or points.has(size, first):
                continue
            began = time.perf_counter()
            with ke.edit(
                model, edits=edits[first : first + size], editor=curve.editor, options=curve.options
            ) as edited:
                points.add(edited, first, began)


def in_sequence(curve: EditCurve, model: Model, edits: Sequence[SourcedEdit], points: PointFile) -> None:
    """Measure after every step."""
    last = max(curve.sizes)
    if points.has(last):
        return
    began = time.perf_counter()
    with ke.edit(model, edits=edits[: curve.step], editor=curve.editor, options=curve.options) as edited:
        points.add(edited, 0, began)
        for first in range(curve.step, last, curve.step):
            began = time.perf_counter()
            edited.add(edits=edits[first : first + curve.step])
            points.add(edited, 0, began)


def collect(out: Path) -> dict[str, Any]:
    """Return the points of all curves, with what they depend on."""
    found = {}
    for name, curve in CURVES.items():
        if points := sorted(points_in(out / f"{name}.jsonl"), key=lambda one: (one["edits"], one["first"])):
            found[name] = {"editor": curve.editor, "options": curve.options, "step": curve.step, "points": points}
    return {**json.loads((out / SETUP).read_text(encoding="utf-8")), "curves": found}


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    add_data_dir(parser)
    parser.add_argument("--curves", default=";".join(CURVES), help="separated by semicolons")
    parser.add_argument("--out", type=Path, default=Path("runs/budget"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--collect", action="store_true", help="write the results, and measure nothing")
    return parser.parse_args()


def measure(given: argparse.Namespace) -> None:
    """Measure every point that is missing."""
    model = ke.load(given.model, dtype=given.dtype, device=given.device)
    edits, sizes, base = edits_of(given.data_dir), Sizes(model.module), perplexity(model)
    given.out.mkdir(parents=True, exist_ok=True)
    setup = {
        "model": given.model, "digest": model.model.digest, "shape": config_shape(model.module.config),
        "dtype": given.dtype, "device": given.device, "torch": torch.__version__, "dataset": DATASET,
        "perplexity": base,
    }  # fmt: skip
    (given.out / SETUP).write_text(json.dumps(setup, indent=1) + "\n", encoding="utf-8")
    for name in given.curves.split(";"):
        curve = CURVES[name]
        points = PointFile(given.out / f"{name}.jsonl", curve, sizes, base)
        (in_sequence if curve.step else at_once)(curve, model, edits, points)


def main() -> None:
    """Measure, and write the results."""
    given = read_options()
    if not given.collect:
        measure(given)
    given.results.write_text(json.dumps(collect(given.out), indent=1) + "\n", encoding="utf-8")
    print(f"{given.results} written")


if __name__ == "__main__":
    main()
