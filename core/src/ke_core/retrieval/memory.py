"""A memory of facts in words, searched by one matrix product for all questions at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as write_tensors

from ke_core.errors import BadData
from ke_core.files import write_atomic
from ke_core.requests import Encoder, Hit

ROWS = 4096  # queries scored at once: bounds the table of scores to 4096 times the facts
DECIMALS = 6  # of a score, when scores are compared


class FactMemory:
    """Facts by id, in the order they came; each id once, its first text counts.

    The vectors are one float32 matrix [n, d]. Insertion order decides ties, so that nothing depends on the
    hash seed of the process.
    """

    def __init__(self, encoder: Encoder, edits: Iterable[tuple[str, str]] = ()) -> None:
        self.encoder = encoder
        self._facts: list[tuple[str, str]] = []
        self._row: dict[str, int] = {}
        self._vectors: NDArray[np.float32] = np.zeros((0, 0), dtype=np.float32)
        self.add(edits)

    def __len__(self) -> int:
        return len(self._facts)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """(id, text) of every fact, in order."""
        return tuple(self._facts)

    def add(self, edits: Iterable[tuple[str, str]]) -> None:
        """Append facts; only they are embedded. One whose id is there already is left as it is."""
        fresh: dict[str, str] = {}
        for name, text in edits:
            if name not in self._row:
                fresh.setdefault(name, text)
        if fresh:
            vectors = self.encoder.embed(list(fresh.values()))
            self._put([*self._facts, *fresh.items()], np.concatenate([self._vectors, vectors]) if self else vectors)

    def remove(self, ids: Iterable[str]) -> None:
        """Take facts out; ids that are not there are ignored."""
        gone = frozenset(ids)
        kept = [row for row, (name, _text) in enumerate(self._facts) if name not in gone]
        self._put([self._facts[row] for row in kept], self._vectors[kept])

    def search(self, texts: Sequence[str], *, k: int, hidden: Sequence[frozenset[str]]) -> list[tuple[Hit, ...]]:
        """The ``k`` facts with the highest dot product for each text, best first, without its hidden ids.

        Fewer where fewer are left, none where the memory is empty. Scores that agree to six decimals are
        equal, and stand in insertion order. ``hidden`` has one set per text; nothing is rebuilt for it.
        """
        if not self or not texts:
            return [() for _ in texts]
        queries = self.encoder.embed(texts)
        hits: list[tuple[Hit, ...]] = []
        for start in range(0, len(texts), ROWS):
            scores = queries[start : start + ROWS] @ self._vectors.T
            for line, unseen in zip(scores, hidden[start : start + ROWS], strict=True):
                line[[self._row[name] for name in unseen if name in self._row]] = -np.inf
                hits.append(tuple(self._hit(row, line) for row in _best(line, k)))
        return hits

    def save(self, path: Path) -> None:
        """Write the memory to one safetensors file, its facts as JSON in the header. Raises KEError."""
        about = {"encoder": self.encoder.id, "facts": json.dumps(self._facts, ensure_ascii=False)}
        write_atomic(path, write_tensors({"vectors": self._vectors}, metadata=about))

    @classmethod
    def load(cls, path: Path, encoder: Encoder) -> Self:
        """A saved memory, without embedding anything. Raises BadData where the file does not fit ``encoder``."""
        try:
            with safe_open(path, framework="numpy") as stored:
                about, vectors = stored.metadata() or {}, stored.get_tensor("vectors")
            facts = [(str(name), str(text)) for name, text in json.loads(about["facts"])]
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            raise BadData(f"{path} is not a saved fact memory", hint="build it again") from error
        if about.get("encoder") != encoder.id or len(facts) != len(vectors):
            raise BadData(f"{path} was not made with the encoder {encoder.id}", hint="build it again")
        memory = cls(encoder)
        memory._put(facts, vectors)
        return memory

    def _put(self, facts: list[tuple[str, str]], vectors: NDArray[np.float32]) -> None:
        self._facts, self._vectors = facts, vectors
        self._row = {name: row for row, (name, _text) in enumerate(facts)}

    def _hit(self, row: int, scores: NDArray[np.float32]) -> Hit:
        name, text = self._facts[row]
        return Hit(id=name, text=text, score=float(scores[row]))


def _best(scores: NDArray[np.float32], k: int) -> list[int]:
    """The ``k`` best rows, best first; a row at minus infinity is hidden.

    Scores are rounded before they are compared: the sums of a matrix product depend in their last bits on
    how many rows it has, and equal vectors must not be told apart by that.
    """
    rounded = np.round(scores, DECIMALS)
    if k < len(rounded):  # every row as good as the k-th: among equals, order decides
        rows = np.flatnonzero(rounded >= np.partition(rounded, len(rounded) - k)[len(rounded) - k])
    else:
        rows = np.arange(len(rounded))
    best = rows[np.argsort(-rounded[rows], kind="stable")][:k]
    return [int(row) for row in best if np.isfinite(scores[row])]
