"""Embed all edit statements and find the nearest one for each: batches and one matrix product, against loops.

    OMP_NUM_THREADS=1 python benchmarks/embedding.py

The statements are those of MQuAKE-CF-3k, or of the atlas if that file is missing. Each is also a query. Published code
embeds them one by one, and searches the memory with one dot product per fact (CHECK) or one matrix-vector product per
query (MeLLo). ``ke`` runs the code of its memory editors; the search uses precomputed vectors. The vectors must agree
within 1e-5, and the nearest facts must be identical.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
import torch
from attrs import frozen
from measure import GIGA, Stopwatch, show_profile
from memory import statements
from numpy.typing import NDArray
from published import add_data_dir

from ke_core.spec.requests import Encoder
from ke_memory.plugin import FactMemory, load_encoder

Vectors = NDArray[np.float32]
TOLERANCE = 1e-5


@frozen(kw_only=True, eq=False)
class KnownVectors:
    """An encoder with precomputed vectors."""

    id: str
    vectors: dict[str, Vectors]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the precomputed vectors."""
        return np.stack([self.vectors[text] for text in texts])


def one_by_one(encoder: Encoder, texts: Sequence[str]) -> Vectors:
    """Embed each text in a separate call."""
    return np.concatenate([encoder.embed([text]) for text in texts])


def dot_by_dot(vectors: Vectors) -> list[int]:
    """Return the nearest row for each row, one dot product at a time."""
    return [max(range(len(vectors)), key=lambda row: float(vectors[row] @ query)) for query in vectors]


def vector_by_vector(vectors: torch.Tensor) -> list[int]:
    """Return the nearest row for each row, one matrix-vector product at a time."""
    return [int((vectors @ query).topk(1).indices[0]) for query in vectors]


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm-l6")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=int, default=None, help="number of statements")
    parser.add_argument("--profile", action="store_true", help="run again and print where the time of ke goes")
    add_data_dir(parser)
    return parser.parse_args()


def main() -> None:
    """Compare both variants, print, and fail if they disagree."""
    given = read_options()
    torch.set_num_threads(1)
    texts = statements(given.data_dir)[: given.limit]
    encoder = load_encoder(given.encoder, device=given.device)
    watch, count = Stopwatch(torch.device(given.device)), len(texts)
    encoder.embed(texts[:1])  # neither way pays for the first touch

    vectors, fast = watch.timed(lambda: encoder.embed(texts))
    singly, slow = watch.timed(lambda: one_by_one(encoder, texts))
    apart = float(np.abs(vectors - singly).max())
    tokens = sum(map(len, encoder.tokenizer(texts, truncation=True, max_length=encoder.longest)["input_ids"]))
    print(f"{count:,} statements, {given.encoder}, {tokens:,} tokens")
    print(f"embedding, one by one   {slow:8.2f} {watch.unit}  {1e3 * slow / count:7.2f} ms each")
    print(f"embedding, ke           {fast:8.2f} {watch.unit}  {1e3 * fast / count:7.2f} ms each")
    print(f"ratio                   {slow / fast:8.1f}, largest difference {apart:.1e}")
    if given.profile:
        show_profile(lambda: encoder.embed(texts), encoder.model)

    memory = FactMemory(
        KnownVectors(id=encoder.id, vectors=dict(zip(texts, vectors, strict=True))), zip(texts, texts, strict=True)
    )
    look = Stopwatch(torch.device("cpu"))  # vectors lie in the processor's memory
    hits, quick = look.timed(lambda: memory.search(texts, k=1, hidden=[frozenset()] * count))
    _scores, product = look.timed(lambda: vectors @ vectors.T)
    by_vector, middling = look.timed(lambda: vector_by_vector(torch.from_numpy(vectors)))
    by_dot, tedious = look.timed(lambda: dot_by_dot(vectors))
    place = {text: row for row, text in enumerate(texts)}
    found = [place[hit.text] for (hit,) in hits]
    print(f"nearest, dot products   {tedious:8.2f} s CPU  {tedious / quick:8.1f} times ke")
    print(f"nearest, matrix-vector  {middling:8.2f} s CPU  {middling / quick:8.1f} times ke, ", end="")
    print(f"{count * vectors.nbytes / middling / GIGA:.1f} GB/s read")
    print(f"nearest, ke             {quick:8.2f} s CPU, matrix product {product:.3f}: ", end="")
    print(f"{2 * count * vectors.size / product / GIGA:.1f} GFLOP/s")
    if apart > TOLERANCE or not found == by_vector == by_dot:
        sys.exit("the ways disagree")


if __name__ == "__main__":
    main()
