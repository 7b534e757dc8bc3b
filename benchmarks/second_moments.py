"""Second moments of several layers: one pass over the text for all of them against one pass for each.

    OMP_NUM_THREADS=1 python benchmarks/second_moments.py --model tiny
    OMP_NUM_THREADS=1 python benchmarks/second_moments.py --model smollm2-135m --layers 4-8 --tokens 2000

Both read the same documents in the same batches, and a pass for one layer ends at that layer. The matrices must be
equal to the last bit. Times are CPU times of this process with one thread, so that other work on the machine does not
count. Nothing is read from the cache or left in it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ke_core.cli.stats import parse_layers
from ke_core.models.hf.model import HFModel
from ke_core.models.resolve import open_model
from ke_core.testing.fakes import Silence
from ke_core.testing.tiny import tiny_model
from ke_core.whitebox.corpus import read_corpus
from ke_core.whitebox.gram import gram_sums
from ke_core.whitebox.modules import ModuleMap, module_map
from ke_core.whitebox.moments import MomentSettings, token_rows


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny", metavar="FOLDER_OR_NAME", help="tiny: a random LLaMA of 4 layers")
    parser.add_argument("--layers", default="all", help="all, 4-8, or 4,5,6")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--document-length", type=int, default=256)
    return parser.parse_args()


def timed(
    modules: ModuleMap, rows: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]
) -> tuple[dict[int, Tensor], float]:
    """The sums of every layer, taken in one pass a group, and the CPU seconds they took."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        found: dict[int, Tensor] = {}
        for group in groups:
            found |= gram_sums(modules, rows, {layer: Path(folder) / f"{layer}.partial" for layer in group}, Silence())
        return found, time.process_time() - began


def main() -> None:
    """Run both and compare."""
    options = read_options()
    torch.set_num_threads(1)

    model = tiny_model("llama") if options.model == "tiny" else open_model(options.model)
    assert isinstance(model, HFModel)
    modules = module_map(model.module)
    layers = parse_layers(options.layers) or tuple(range(len(modules.layers)))
    modules.check_layers(layers)
    settings = MomentSettings(corpus="wordnet", tokens=options.tokens, document_length=options.document_length)
    rows = token_rows(model.tokenizer, read_corpus().documents, settings, model.context)
    timed(modules, rows[:1], [layers[:1]])  # neither way pays for the first touch of the weights

    together, one_pass = timed(modules, rows, [layers])
    apart, a_pass_each = timed(modules, rows, [[layer] for layer in layers])
    equal = sum(torch.equal(together[layer], apart[layer]) for layer in layers)

    print(f"{model.id}: layers {options.layers} ({len(layers)}), {sum(map(len, rows)):,} tokens, f {modules.inner}")
    print(f"one pass for each layer  {a_pass_each:8.1f} s CPU")
    print(f"one pass for all         {one_pass:8.1f} s CPU")
    print(f"ratio                    {a_pass_each / one_pass:8.2f}, equal matrices {equal} of {len(layers)}")
    if equal < len(layers):
        sys.exit("matrices differ")


if __name__ == "__main__":
    main()
