"""Key covariance of several layers: one forward pass over the text for all layers, against one pass per layer.

    OMP_NUM_THREADS=1 python benchmarks/second_moments.py
    OMP_NUM_THREADS=1 python benchmarks/second_moments.py --model random:tiny --layers all --tokens 2000
    python benchmarks/second_moments.py --model random:llama-8b --device cuda --dtype bfloat16

Published code reads the text once per layer; each pass ends at that layer. Both variants read the same documents in
the same batches, and multiply in float32. The matrices must agree within 1e-6 of their norm. The cache is not used.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from measure import Comparison, Stopwatch, show_profile
from opening import add_model, opened
from torch import Tensor

from ke_plugin_hf.model import HFModel
from ke_testing.fakes import SilentProgress
from ke_weights.cli.stats import parse_layers
from ke_weights.corpus import read_corpus
from ke_weights.covariance import CovarianceSettings, token_rows
from ke_weights.gram import PASS_TOKENS, gram_sums
from ke_weights.modules import ModuleMap, module_map
from ke_weights.subject import batches, padded

TOLERANCE, PROFILED = 1e-6, 8192
Rows = Sequence[Sequence[int]]


class Seen(Exception):
    """Raised to stop a forward pass."""


def published(modules: ModuleMap, rows: Rows, layer: int) -> Tensor:
    """Sum k k^T over all tokens, float64 [f, f], for one layer, with a forward pass that stops at this layer."""
    total = torch.zeros(modules.inner, modules.inner, dtype=torch.float64, device=modules.device)
    for batch in batches([len(row) for row in rows], PASS_TOKENS):
        ids, mask = padded([rows[at] for at in batch], modules.device)

        def see(_module: Any, inputs: tuple[Tensor, ...], mask: Tensor = mask) -> None:
            keys = inputs[0][mask.bool()].float()
            total.add_(keys.T @ keys)
            raise Seen

        handle = modules.layers[layer].projection.register_forward_pre_hook(see)
        try:
            with torch.no_grad():
                modules.module(input_ids=ids, attention_mask=mask, use_cache=False)
        except Seen:
            handle.remove()
    return total


def ours(modules: ModuleMap, rows: Rows, layers: Sequence[int]) -> dict[int, Tensor]:
    """Compute the same for every layer, in one pass."""
    with tempfile.TemporaryDirectory() as folder:
        return gram_sums(
            modules, rows, {layer: Path(folder) / f"{layer}.partial" for layer in layers}, SilentProgress()
        )


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--layers", default="4-8", help="all, 4-8, or 4,5,6")
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--document-length", type=int, default=256)
    parser.add_argument(
        "--profile", action="store_true", help="run a few thousand tokens again and print where the time goes"
    )
    return parser.parse_args()


def compare(model: HFModel, given: argparse.Namespace) -> Comparison:
    """Run both, print and compare."""
    modules, watch = module_map(model.module), Stopwatch(model.device)
    layers = parse_layers(given.layers) or tuple(range(len(modules.layers)))
    modules.check_layers(layers)
    settings = CovarianceSettings(corpus="wordnet", tokens=given.tokens, document_length=given.document_length)
    rows = token_rows(model.tokenizer, read_corpus().documents, settings, model.context)
    ours(modules, rows[:1], layers[:1])  # neither way pays for the first touch of the weights

    together, fast = watch.timed(lambda: ours(modules, rows, layers))
    apart, slow = watch.timed(lambda: {layer: published(modules, rows, layer) for layer in layers})
    off = max(float((together[layer] - apart[layer]).norm() / apart[layer].norm()) for layer in layers)

    tokens, unit = sum(map(len, rows)), watch.unit
    print(f"{model.id} in {given.dtype}: layers {given.layers} ({len(layers)}), {tokens:,} tokens, f {modules.inner}")
    print(f"one pass per layer     {slow:8.1f} {unit}  {1e3 * slow / tokens:7.3f} ms per token")
    print(f"one pass for all layers{fast:8.1f} {unit}  {1e3 * fast / tokens:7.3f} ms per token")
    print(f"ratio                  {slow / fast:8.2f}, largest difference {off:.1e} of |C|")
    if given.profile:
        few = rows[: max(1, PROFILED // given.document_length)]
        show_profile(lambda: ours(modules, few, layers), model.module)
    if off > TOLERANCE:
        sys.exit("matrices differ")
    work = f"key covariance of {len(layers)} layers, {tokens:,} tokens"
    return Comparison(work=work, ours=fast, plain=slow, agreement=f"difference {off:.0e} of the norm")


def main() -> None:
    """Run both on the model of the command line."""
    given = read_options()
    torch.set_num_threads(1)
    compare(opened(given), given)


if __name__ == "__main__":
    main()
