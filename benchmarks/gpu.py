"""All measurements of a GPU: a LLaMA of 8B parameters with random weights in bfloat16, nothing to download.

    python benchmarks/gpu.py
    python benchmarks/gpu.py --minutes 5 --size edits=1000
    OMP_NUM_THREADS=1 python benchmarks/gpu.py --shape tiny --device cpu --dtype float32 --minutes 0 --out /tmp/gpu.json

The parts are key covariance, targets, MEMIT in one batch, questions and MeLLo, each against a plain loop, and the
memory of each editor. ``--minutes`` chooses the sizes of the parts, at most those for 40 minutes. No part and no
editor starts after that time. Each part writes its result to ``--out`` when it ends, and the same command continues
with the next part. The page next to ``--out``, with the suffix .md, is written from all results. Needs MQuAKE-CF-3k in
``--data-dir``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import large
import mello
import questions
import second_moments
import targets
import torch
import transformers
from measure import GIB, Comparison, Stopwatch, limits
from opening import SHAPES, random_model
from published import add_data_dir

from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.runner.resolve import resolve_component
from ke_core.runner.usage import measured_phase
from ke_core.spec.errors import KEError
from ke_plugin_hf.model import HFModel
from ke_testing.fakes import make_session

FULL_MINUTES, TOKENS_PER_DIMENSION = 40.0, 3
SIZES = {
    "tokens": (2000, 200_000), "targets": (4, 64), "edits": (16, 1000), "singly": (2, 16), "questions": (8, 200),
    "plain": (2, 50), "mello": (4, 100), "published": (1, 10),
}  # fmt: skip
"""The smallest size of each part, and the size for 40 minutes. ``singly``, ``plain``, ``published``: plain loops."""
LAYERS = {"tiny": "1,2", "llama-1b": "2,3,4", "llama-8b": "4,5,6,7,8"}
EDITORS = ("ft", "ultraedit", "memit", "rome", "lora", "grace", "wise", "r-rome", "emmet", "pmet", "nse", "alphaedit")
ONE_LAYER = {"rome", "r-rome", "emmet"}
LOCATE = {*ONE_LAYER, "memit", "pmet", "nse", "alphaedit"}
Result = dict[str, Any]
RATES = ("large matrix product", "reading a large matrix")
PAGE = """\
# Results on a GPU

`benchmarks/gpu.py` wrote this page. The weights are random: speed and memory do not depend on their values.

{}

Seconds are wall time. The time of a plain loop is extrapolated from some of the items, if it was slow. Times of MEMIT
are those of the whole batch, without the key covariance. Peak memory includes the weights.

| work | plain loop [s] | `ke` [s] | ratio | rate of `ke` | agreement | peak memory [GiB] |
| --- | --- | --- | --- | --- | --- | --- |
{}
"""
EDITORS_TABLE = """
The peak memory that one edit adds to the weights, and its seconds with the key covariance of one layer:

| editor | additional GiB | seconds |
| --- | --- | --- |
"""


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="llama-8b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--minutes", type=float, default=FULL_MINUTES, help="time limit, which chooses the sizes")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N", help=f"one of {', '.join(SIZES)}")
    parser.add_argument("--parts", default=",".join(PARTS), help="separated by commas")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    add_data_dir(parser)
    return parser.parse_args()


def sizes(given: argparse.Namespace) -> dict[str, int]:
    """Return the size of each part: those of the command line, and a fraction of the full ones."""
    fraction = min(1.0, given.minutes / FULL_MINUTES)
    found = {name: max(least, round(fraction * full)) for name, (least, full) in SIZES.items()}
    found["tokens"] = max(found["tokens"], TOKENS_PER_DIMENSION * SHAPES[given.shape]["intermediate_size"])
    return found | {name: int(size) for name, size in (text.split("=") for text in given.size)}


def with_options(given: argparse.Namespace, **options: Any) -> argparse.Namespace:
    """Return the options of another benchmark."""
    return argparse.Namespace(**{**vars(given), "profile": False, **options})


def covariance(model: HFModel, given: argparse.Namespace) -> Result:
    """Compute the key covariance of every edited layer."""
    size, length = given.sizes["tokens"], 256
    found = second_moments.compare(
        model, with_options(given, layers=LAYERS[given.shape], tokens=size, document_length=length)
    )
    return row(found) | {"rate": f"{size / found.ours:,.0f} tokens per second"}


def optimized(model: HFModel, given: argparse.Namespace) -> Result:
    """Optimize targets."""
    layer = int(LAYERS[given.shape].rpartition(",")[2])
    found = targets.compare(model, with_options(given, edits=given.sizes["targets"], steps=20, layer=layer))
    return row(found) | {"rate": f"{found.ours / given.sizes['targets']:.3f} s per edit"}


def edits(model: HFModel, given: argparse.Namespace) -> Result:
    """Edit with MEMIT, in one batch and one by one."""
    some = {name: given.sizes[name] for name in ("edits", "singly", "tokens")}
    found = large.compare(model, with_options(given, layers=LAYERS[given.shape], **some))
    return row(found) | {"rate": f"{found.ours / some['edits']:.3f} s per edit"}


def asked(model: HFModel, given: argparse.Namespace) -> Result:
    """Answer questions with a few-shot prompt."""
    count = given.sizes["questions"]
    found = questions.compare(model, with_options(given, questions=count, plain=given.sizes["plain"]))
    return row(found) | {"rate": f"{count / found.ours:.1f} questions per second"}


def multi_hop(model: HFModel, given: argparse.Namespace) -> Result:
    """Answer with MeLLo. Its encoder is a fake one, so that nothing is downloaded."""
    count, few = given.sizes["mello"], given.sizes["published"]
    found = mello.compare(model, with_options(given, encoder="fake", questions=count, published=few))
    return row(found) | {"rate": f"{count / found.ours:.1f} questions per second"}


def memory(model: HFModel, given: argparse.Namespace) -> Result:
    """Measure the peak memory that each installed editor adds to the model for one edit."""
    catalog, found = read_catalog(discover()), {}
    layer = LAYERS[given.shape].split(",")[1]
    with tempfile.TemporaryDirectory() as folder:
        session = make_session(model, root=Path(folder))
        for name in EDITORS:
            if name not in catalog.names("editor") or time.monotonic() > given.deadline:
                continue
            own = {("layer" if name in ONE_LAYER else "layers"): layer, "tokens": str(given.sizes["tokens"])}
            options = {name: {**own, "clamp": large.SMALL} if name in LOCATE else {}}
            editor = resolve_component(catalog, "editor", name, options).build()
            with measured_phase(name, model) as phase:
                try:
                    with editor.edit(session, large.made_up(1)):
                        pass
                except KEError as refused:
                    print(f"  {name}: {refused}", flush=True)
                    continue
            peak = phase.rise.device if given.device.startswith("cuda") else phase.rise.host
            found[name] = {"gib": (peak or 0) / GIB, "seconds": phase.seconds}
            print(f"  {name:12} {found[name]['gib']:7.2f} GiB {found[name]['seconds']:7.1f} s", flush=True)
    return {"editors": found}


def row(found: Comparison) -> Result:
    """Return the row of a comparison."""
    return {"work": found.work, "plain": found.plain, "ours": found.ours, "ratio": found.ratio, "same": found.agreement}


PARTS: Mapping[str, Callable[[HFModel, argparse.Namespace], Result]] = {
    "covariance": covariance, "edits": edits, "questions": asked, "mello": multi_hop, "targets": optimized,
    "memory": memory,
}  # fmt: skip


def measure(model: HFModel, given: argparse.Namespace, results: Result) -> None:
    """Run the parts that have no result, and write after each."""
    watch = Stopwatch(model.device)
    for name in given.parts.split(","):
        if name in results["parts"] or time.monotonic() > given.deadline:
            continue
        print(f"{name}:", flush=True)
        if watch.waits:
            torch.cuda.reset_peak_memory_stats(model.device)
        began = time.perf_counter()
        try:
            found = PARTS[name](model, given)
        except SystemExit as differs:  # two ways that must agree do not
            found = {"failed": str(differs)}
        found |= {"seconds": time.perf_counter() - began, "gib": watch.memory()}
        results["parts"][name] = found
        given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        given.out.with_suffix(".md").write_text(page(results), encoding="utf-8")


def page(results: Result) -> str:
    """Return the results as a page."""
    parts = results["parts"]
    rows = [
        f"| {p['work']} | {p['plain']:.1f} | {p['ours']:.1f} | {p['ratio']:.1f}x | {p['rate']} | {p['same']} "
        f"| {p['gib']:.1f} |"
        for p in parts.values() if "work" in p
    ]  # fmt: skip
    failed = [f"- {name} failed: {part['failed']}" for name, part in parts.items() if "failed" in part]
    editors = [
        f"| `{name}` | {one['gib']:.2f} | {one['seconds']:.1f} |"
        for name, one in parts.get("memory", {}).get("editors", {}).items()
    ]
    facts = [f"- {name}: {value}" for name, value in results["setup"].items()]
    found = PAGE.format("\n".join(facts), "\n".join(rows + failed))
    return found + (EDITORS_TABLE + "\n".join(editors) + "\n" if editors else "")


def setup(model: HFModel, given: argparse.Namespace) -> Result:
    """Return what the results depend on."""
    cuda = given.device.startswith("cuda")
    top = limits(model.device, model.module.dtype)
    return {
        "device": torch.cuda.get_device_name() if cuda else given.device,
        "model": f"{model.id}, {sum(p.numel() for p in model.module.parameters()) / 1e9:.2f} billion parameters",
        "dtype": given.dtype,
        "torch": f"{torch.__version__}, transformers {transformers.__version__}",
        "cuDNN's attention": "enabled" if torch.backends.cuda.cudnn_sdp_enabled() else "disabled",  # type: ignore[no-untyped-call]
        RATES[0]: f"{top.flops / 1e12:,.3g} TFLOP/s",
        RATES[1]: f"{top.read / 1e9:,.0f} GB/s",
    }


def compared(setup: Mapping[str, Any]) -> Result:
    """Return what must be equal to continue: everything but the measured rates."""
    return {name: value for name, value in setup.items() if name not in RATES}


def main() -> None:
    """Measure what is missing and write the page."""
    given = read_options()
    given.deadline, given.sizes = time.monotonic() + 60 * given.minutes, sizes(given)
    if given.minutes == 0:  # the smallest sizes, all of them
        given.deadline = float("inf")
    if given.device == "cpu":
        torch.set_num_threads(1)  # the stopwatch counts CPU time
    model = random_model(given.shape, given.device, given.dtype)
    results = {"setup": setup(model, given), "sizes": given.sizes, "parts": {}}
    if given.out.exists():
        before = json.loads(given.out.read_text(encoding="utf-8"))
        if compared(before["setup"]) != compared(results["setup"]):
            sys.exit(f"{given.out} has results of another setup: name another file with --out")
        results["parts"] = before["parts"]
    print(f"{results['setup']}\n{given.sizes}", flush=True)
    measure(model, given, results)


if __name__ == "__main__":
    main()
