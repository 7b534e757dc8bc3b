"""Find the edited hops of MQuAKE-CF-3k: PokeMQA's trained detector, against plain nearest neighbor.

    ke train pokemqa --data DIR/pokemqa/cls-filtered.json --without mquake-cf-3k \\
        --data-dir DIR/mquake --minutes 3
    OMP_NUM_THREADS=1 python benchmarks/scope.py --edits 100 --edits all

The cases form groups of N, or one group of all; the memory holds the edits of one group. A hop is a distinct question
of the group's edited chains. It is edited if the memory holds an edit of its subject and relation (its cloze) from any
case; a detection is correct if it names such an edit. The script prints F1 of correct detections (``right edit``), and
F1 of edited against unedited for any edit (``edited or not``), over all groups, on one half of the hops. Nearest
neighbor uses the threshold that is best on the other half; the trained detectors are used unchanged.

``--without mquake-cf-3k`` excludes CF-3k's edits, their prompts and their questions from the training. Hops whose
question is in the training data anyway are omitted and counted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from attrs import evolve, frozen
from published import add_data_dir

from ke_core.engine.models import NoModel
from ke_core.plugin import Session
from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.runner.session import open_session
from ke_memory.plugin import FactMemory, load_encoder
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.scope import Detector, NearestMemory, ScopeMemory, Side
from ke_plugin_pokemqa.trained import trained
from ke_testing.fakes import SilentProgress

Found = tuple[str | None, float]
"""The prompt of the edit that was found, None for no edit, and its score."""


@frozen(kw_only=True)
class Hop:
    """A hop. ``prompt``: subject and relation. ``edited``: whether the memory holds an edit of them."""

    question: str
    prompt: str
    edited: bool


@frozen
class F1:
    """``right``: F1 with the right edit; ``told``: F1 of edited or not; ``wrong``: hops that got it wrong."""

    right: float
    told: float
    wrong: int


class Once:
    """An encoder that embeds each text once, for several memories with the same statements."""

    def __init__(self, encoder: Any) -> None:
        self.id, self.encoder = encoder.id, encoder
        self.known: dict[str, Any] = {}

    def embed(self, texts: Sequence[str]) -> Any:
        """Return the vectors [n, d]."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known |= dict(zip(fresh, self.encoder.embed(fresh), strict=True))
        return np.stack([self.known[text] for text in texts])


def statements(cases: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the statement of every edit, and the prompt that it completes."""
    found: dict[str, str] = {}
    for rewrite in (rewrite for case in cases for rewrite in case["requested_rewrite"]):
        prompt = rewrite["prompt"].replace("{}", rewrite["subject"])
        found.setdefault(f"{prompt} {rewrite['target_new']['str']}", prompt)
    return found


def hops(cases: Sequence[dict[str, Any]], edits: dict[str, str], seen: frozenset[str]) -> tuple[list[Hop], int]:
    """Return the distinct hops of the edited chains whose question is not in ``seen``, and the number of the others."""
    prompts = set(edits.values())
    asked = {hop["question"]: hop["cloze"] for case in cases for hop in case["new_single_hops"]}
    kept = [
        Hop(question=question, prompt=prompt, edited=prompt in prompts)
        for question, prompt in asked.items()
        if question.casefold() not in seen
    ]
    return kept, len(asked) - len(kept)


def scored(found: Sequence[str | None], asked: Sequence[Hop]) -> F1:
    """Compute F1 from the prompts of the detected edits; None means no edit."""
    pairs = list(zip(found, asked, strict=True))
    both = sum(prompt is not None for prompt in found) + sum(hop.edited for hop in asked)
    right = sum(prompt == hop.prompt for prompt, hop in pairs)
    told = sum(prompt is not None and hop.edited for prompt, hop in pairs)
    wrong = sum(prompt != (hop.prompt if hop.edited else None) for prompt, hop in pairs)
    return F1(2 * right / both, 2 * told / both, wrong)


def detect(memory: FactMemory, edits: dict[str, str], asked: Sequence[Hop]) -> list[Found]:
    """Fill ``memory`` with the edits; return for each hop the prompt of the detected edit, and its score."""
    memory.add((text, text) for text in edits)
    hits = memory.search([hop.question for hop in asked], k=1, hidden=[frozenset()] * len(asked))
    return [(edits[hit[0].id], hit[0].score) if hit else (None, 0.0) for hit in hits]


def nearest_first(detector: Detector) -> Callable[[Side, Side], Any]:
    """Order several candidates like the pre-detector instead of the disambiguator."""

    def p(edits: Side, questions: Side) -> Any:
        apart = ((edits.vectors + detector.offset - questions.vectors) ** 2).sum(1)
        return np.exp(-(detector.scale**2) * apart).clip(min=0.5)  # they are candidates

    return p


def best_threshold(found: Sequence[Found], asked: Sequence[Hop]) -> float:
    """Return the threshold with the best F1 (right edit) on these hops."""
    tried = [round(0.5 + 0.005 * step, 3) for step in range(100)]
    return max(tried, key=lambda least: scored(cut(found, least), asked).right)


def cut(found: Sequence[Found], least: float) -> list[str | None]:
    return [prompt if score >= least else None for prompt, score in found]


def held_out(hop: Hop) -> bool:
    """Return which half a hop is in, by its question, so that it is the same for every number of edits."""
    return hashlib.sha256(hop.question.encode()).digest()[0] % 2 == 1


def compare(
    groups: Sequence[Sequence[dict[str, Any]]], seen: frozenset[str], session: Session[Any], ours: Detector
) -> None:
    """Print one table."""
    banks = [(edits, *hops(cases, edits, seen)) for cases in groups for edits in [statements(cases)]]

    def over_all(make: Callable[[], FactMemory], *, test: bool) -> tuple[list[Found], list[Hop]]:
        asked = [[hop for hop in asked if held_out(hop) != test] for _edits, asked, _left in banks]
        found = [detect(make(), bank[0], some) for bank, some in zip(banks, asked, strict=True)]
        return [each for some in found for each in some], [hop for some in asked for hop in some]

    def nearest() -> NearestMemory:
        return NearestMemory(session.encoder("minilm-l6"), -1.0)

    threshold = best_threshold(*over_all(nearest, test=False))
    found, asked = over_all(nearest, test=True)
    rows = {f"nearest, threshold {threshold}": scored(cut(found, threshold), asked)}
    for name, detector in {
        "pre-detector alone": evolve(ours, confirm=False, judge=nearest_first(ours)),
        "both, sole candidates taken": evolve(ours, confirm=False),
        "both, sole candidates confirmed": evolve(ours, confirm=True),
    }.items():
        found, asked = over_all(partial(ScopeMemory, detector), test=True)
        rows[name] = scored([prompt for prompt, _score in found], asked)
    edited, left_out = sum(hop.edited for hop in asked), sum(left for *_rest, left in banks)
    print(f"\n{len(groups)} x {len(groups[0])} cases: {len(asked)} hops, {edited} edited; {left_out} omitted")
    print(f"{'':34} {'F1 right edit':>14} {'F1 edited or not':>17} {'errors':>7}")
    for name, row in rows.items():
        print(f"{name:34} {100 * row.right:14.2f} {100 * row.told:17.2f} {row.wrong:7}")


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", default="", metavar="FOLDER", help="default: the one in the cache")
    parser.add_argument("--edits", action="append", metavar="N|all", help="cases per group")
    add_data_dir(parser)
    return parser.parse_args()


def main() -> None:
    """Print one table for each number of cases."""
    options = read_options()
    torch.set_num_threads(1)
    cases = json.loads((options.data_dir / "mquake" / "MQuAKE-CF-3k.json").read_text(encoding="utf-8"))
    records = json.loads((options.data_dir / "pokemqa" / "cls-filtered.json").read_text(encoding="utf-8"))
    seen = frozenset(question.casefold() for record in records for question in record["questions"])
    encoder = Once(load_encoder("minilm-l6"))
    session = evolve(
        open_session(NoModel(), catalog=read_catalog(discover()), seed=0, progress=SilentProgress(), material={}),
        encoder=lambda _name: encoder,
    )
    ours = trained(session, PokemqaConfig(checkpoint=options.checkpoint)).detector
    for number in options.edits or ["100", "all"]:
        size = len(cases) if number == "all" else int(number)
        groups = [cases[start : start + size] for start in range(0, len(cases), size)]
        compare(groups, seen, session, ours)


if __name__ == "__main__":
    main()
