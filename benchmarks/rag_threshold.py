"""The similarity threshold of ``rag``: questions about a statement in memory, against questions about none.

    OMP_NUM_THREADS=1 python benchmarks/rag_threshold.py DIR/pokemqa/cls-filtered.json \\
        --statements 100 --statements 1000 --statements 6688

The file is PokeMQA's training file: statements, each with questions. N statements are sampled, and one question for
each. A question is found if its own statement reaches the threshold, and rejected if no other statement does. The best
threshold has the highest mean of both percentages.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from random import Random

import numpy as np

from ke_memory.plugin import load_encoder
from ke_plugin_rag.editor import THRESHOLDS

GRID = np.arange(0.2, 0.95, 0.01)


def main() -> None:
    """Print one line for each number of statements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--statements", type=int, action="append", required=True)
    parser.add_argument("--encoder", default="minilm-l6")
    given = parser.parse_args()
    encoder, chance = load_encoder(given.encoder), Random(0)
    records = json.loads(given.file.read_text(encoding="utf-8"))
    chance.shuffle(records)
    for number in given.statements:
        some = records[:number]
        statements = encoder.embed([record["edit"] for record in some])
        questions = encoder.embed([chance.choice(record["questions"]) for record in some])
        scores = questions @ statements.T
        own = scores.diagonal().copy()
        np.fill_diagonal(scores, -np.inf)
        others = scores.max(axis=1)
        balanced = [((own >= at).mean() + (others < at).mean()) / 2 for at in GRID]
        best, default = GRID[int(np.argmax(balanced))], THRESHOLDS.get(given.encoder, GRID[int(np.argmax(balanced))])
        print(
            f"{number} statements: best threshold {best:.2f}; at {default:.2f}: found {(own >= default).mean():.1%}, "
            f"rejected {(others < default).mean():.1%}"
        )


if __name__ == "__main__":
    main()
