"""Embedding every edit statement, and finding the nearest of all for each: in batches and products, against loops.

    OMP_NUM_THREADS=1 python benchmarks/embedding.py

The statements are those of MQuAKE-CF-3k, or of the atlas where there is no such file; each is also a query. The vectors
must agree, and so must the nearest facts. Times are CPU times of this process with one thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from memory import statements

from ke_core.retrieval import load_encoder

ROOT = Path(__file__).resolve().parents[1]
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and CPU seconds."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def main() -> int:
    """Compare, print, and fail if the two ways disagree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", default="minilm-l6")
    parser.add_argument("--limit", type=int, default=None, help="take so many statements")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("KE_DATA_DIR", ROOT.parent / "shared" / "data"))
    given = parser.parse_args()
    texts = statements(Path(given.data_dir))[: given.limit]
    encoder = load_encoder(given.encoder)
    encoder.embed(texts[:1])
    together, fast = timed(lambda: encoder.embed(texts))
    singly, slow = timed(lambda: np.concatenate([encoder.embed([text]) for text in texts]))
    apart = float(np.abs(together - singly).max())
    print(f"{len(texts):,} statements, {given.encoder}")
    print(f"embedding: one by one {slow:.1f} s, in batches {fast:.1f} s: {slow / fast:.1f}x, apart {apart:.1e}")
    product, quick = timed(lambda: (together @ together.T).argmax(axis=1))
    loop, tedious = timed(lambda: np.array([int(np.argmax([row @ query for row in together])) for query in together]))
    vectors, middling = timed(lambda: np.array([int((together @ query).argmax()) for query in together]))
    print(
        f"nearest of all: loop of dot products {tedious:.2f} s, of matrix-vector products {middling:.2f} s, one "
        f"product {quick:.3f} s: {tedious / quick:.0f}x, {middling / quick:.0f}x"
    )
    same = bool((product == vectors).all() and (product == loop).all())
    return 0 if same and apart < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
