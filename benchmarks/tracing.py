"""Causal tracing: one pass up the blocks per token, against one forward pass for each token and layer.

    OMP_NUM_THREADS=1 python benchmarks/tracing.py --model smollm2-135m --facts 1

Both restore single states, MLP and attention windows, and states with severed MLPs, at the same tokens of the same
prompts with the same noise. Times are CPU times of this process with one thread. The time of ``ke`` includes its
initial clean and corrupted runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from published import add_data_dir
from torch import Tensor

from ke_core.engine.models import open_model
from ke_plugin_hf.model import HFModel
from ke_weights.modules import ModuleMap, find_parts
from ke_weights.trace.facts import read_facts, tokens_of
from ke_weights.trace.naive import naive
from ke_weights.trace.noise import resolve_noise
from ke_weights.trace.runs import Recording, TracePrompt, embedding_of, prompt, record
from ke_weights.trace.settings import Curve, TraceSettings
from ke_weights.trace.sweep import sweep

FAR = 1e-5  # a difference of probabilities in float32 that is more than rounding
SETTINGS = TraceSettings()
T = TypeVar("T")


def ours(modules: ModuleMap, asked: TracePrompt, positions: Sequence[int]) -> tuple[Recording, dict[Curve, Tensor]]:
    """Record once, and compute every curve with one pass up the blocks per token."""
    found = record(modules, asked)
    return found, sweep(modules, found, SETTINGS.curves, positions, SETTINGS.window)


def published(modules: ModuleMap, found: Recording, positions: Sequence[int]) -> dict[Curve, Tensor]:
    """Compute every curve with one forward pass for each token and layer."""
    return {curve: naive(modules, found, curve, positions, SETTINGS.window) for curve in SETTINGS.curves}


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result and its CPU seconds."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m", metavar="FOLDER_OR_NAME")
    parser.add_argument("--facts", type=int, default=1)
    parser.add_argument("--samples", type=int, default=SETTINGS.samples)
    parser.add_argument("--tokens", choices=["all", "subject-last"], default="subject-last")
    add_data_dir(parser)
    return parser.parse_args()


def main() -> None:
    """Run both and compare."""
    options = read_options()
    torch.set_num_threads(1)
    facts = read_facts(options.data_dir / "known_facts" / "known_1000.json").facts
    model = open_model(options.model)
    assert isinstance(model, HFModel)
    modules = find_parts(model.module)
    noise = resolve_noise(SETTINGS.noise, SETTINGS.seed, modules, model.tokenizer, [fact.subject for fact in facts])
    width = int(embedding_of(modules).get_parameter("weight").shape[1])

    quick = slow = furthest = 0.0
    entries = 0
    for fact in facts[: options.facts]:
        ids, subject = tokens_of(model.tokenizer, fact)
        asked = prompt(ids, subject, noise, options.samples, width)
        positions = range(len(ids)) if options.tokens == "all" else [subject[1] - 1]
        (found, tables), seconds = timed(lambda: ours(modules, asked, positions))  # noqa: B023  called here and now
        quick += seconds
        expected, seconds = timed(lambda: published(modules, found, positions))  # noqa: B023  as above
        slow += seconds
        furthest = max(furthest, *(float((tables[curve] - expected[curve]).abs().max()) for curve in expected))
        entries += sum(table.numel() for table in expected.values())

    print(f"{options.facts} facts, {entries} interventions of {options.samples} samples, {len(modules.layers)} layers")
    print(f"separate passes {slow:8.1f} s CPU  {slow / options.facts:7.2f} s per fact")
    print(f"ke              {quick:8.1f} s CPU  {quick / options.facts:7.2f} s per fact")
    print(f"ratio           {slow / quick:8.1f}, largest difference of a probability {furthest:.1e}")
    if furthest > FAR:
        sys.exit("the numbers differ")


if __name__ == "__main__":
    main()
