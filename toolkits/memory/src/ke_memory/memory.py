"""A memory of facts as text, searched with one matrix product for all questions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from ke_core.plugin import BadData, Encoder, Hit, loads
from ke_plugin_hf.tensor_files import damage, write_arrays

Vectors = NDArray[np.float32]
SCORES = 2**24  # scores computed at once (64 MiB)
DECIMALS = 6  # of a score in comparisons
GROUP = 64  # rows whose maximum is compared first: most groups contain none of the k best
SPARE = 1.25  # growth factor of the matrix: n additions copy it O(log n) times


class FactMemory:
    """Facts by id in insertion order. The first text of an id counts.

    A subclass can redefine the score of a fact in ``compare``, or use the ``scores`` of all facts in ``search``.

    The vectors are one float32 matrix [n, d]. Insertion order breaks ties, so results do not depend on the hash seed of
    the process. Removing a fact leaves an empty row. When half of the rows are empty, the matrix is compacted, so
    removing costs no more than adding.
    """

    def __init__(self, encoder: Encoder, edits: Iterable[tuple[str, str]] = ()) -> None:
        self.encoder = encoder
        self._row: dict[str, int] = {}  # by id, in order
        self._facts: list[tuple[str, str]] = []  # by row, including empty rows
        self._empty: list[int] = []
        self._matrix: Vectors = np.zeros((0, 0), dtype=np.float32)  # with spare rows at its end
        self.add(edits)

    def __len__(self) -> int:
        return len(self._row)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """(id, text) of every fact, in order."""
        return tuple(self._facts[row] for row in self._row.values())

    def add(self, edits: Iterable[tuple[str, str]]) -> None:
        """Append facts, and embed only them. A fact whose id exists is unchanged."""
        self.change(add=edits)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove facts. Unknown ids are ignored."""
        self.change(remove=ids)

    def change(self, *, add: Iterable[tuple[str, str]] = (), remove: Iterable[str] = ()) -> None:
        """Remove facts, then append others. Embedding comes first, so if it fails, nothing changes."""
        gone = dict.fromkeys(remove)
        fresh: dict[str, str] = {}
        for name, text in add:
            if name in gone or name not in self._row:
                fresh.setdefault(name, text)
        vectors = self.encoder.embed(list(fresh.values())) if fresh else None
        self._empty += [row for name in gone if (row := self._row.pop(name, None)) is not None]
        if 2 * len(self._empty) > len(self._facts):
            self._pack()
        if vectors is not None:
            self._append(list(fresh.items()), vectors)

    def search(self, texts: Sequence[str], *, k: int, hidden: Sequence[frozenset[str]]) -> list[tuple[Hit, ...]]:
        """Return the ``k`` facts with the highest dot product for each text, best first, without its hidden ids.

        There are fewer results if fewer facts are left. Scores that agree to six decimals are equal and sorted by
        insertion order. ``hidden`` has one set per text; the memory is not rebuilt for it.
        """
        if not self or not texts:
            return [() for _ in texts]
        found = self.scores(self.encoder.embed(texts), hidden)
        return [
            tuple(self.hit(row, line[row]) for row in self.best(line, k)) for _part, lines in found for line in lines
        ]

    def best(self, scores: Vectors, k: int) -> Sequence[int]:
        """Return the rows of the ``k`` highest scores, best first. A subclass may sort equal scores differently."""
        return best_rows(scores, k)

    def scores(self, queries: Vectors, hidden: Sequence[frozenset[str]]) -> Iterator[tuple[slice, Vectors]]:
        """Yield the score of every fact for each query, [queries, rows], in chunks: a slice of queries, and its scores.

        The score is minus infinity for an empty row and for a fact hidden from the query. ``hidden`` has one set per
        query.
        """
        together = max(1, SCORES // len(self.vectors))
        for start in range(0, len(queries), together):
            part = slice(start, start + together)
            found = self.compare(queries[part])
            found[:, self._empty] = -np.inf
            for line, unseen in zip(found, hidden[part], strict=True):
                line[[self._row[name] for name in unseen if name in self._row]] = -np.inf
            yield part, found

    def compare(self, queries: Vectors) -> Vectors:
        """Return the score of each row for each query, [queries, rows]: the dot product."""
        found: Vectors = queries @ self.vectors.T
        return found

    def text(self, row: int) -> str:
        """Return the text of the fact in this row."""
        return self._facts[row][1]

    def hit(self, row: int, score: float) -> Hit:
        """Return the fact in this row as a hit with this score."""
        name, text = self._facts[row]
        return Hit(id=name, text=text, score=float(score))

    def save(self, path: Path) -> None:
        """Write the memory to one safetensors file, with its facts as JSON in a tensor of bytes. Raises KEError."""
        self._pack()
        facts = json.dumps(self._facts, ensure_ascii=False).encode()  # not in the header, which is limited to 100 MB
        tensors = {"vectors": self.vectors, "facts": np.frombuffer(facts, dtype=np.uint8)}
        write_arrays(path, tensors, {"encoder": self.encoder.id})

    @classmethod
    def load(cls, path: Path, encoder: Encoder) -> Self:
        """Load a saved memory without embedding. Raises BadData if the file does not match ``encoder``."""
        try:
            if wrong := damage(path):
                raise BadData(f"{path} is damaged: {wrong}", hint="delete the file and run the command again")
            with safe_open(path, framework="numpy") as stored:
                about, vectors = stored.metadata() or {}, stored.get_tensor("vectors")
                facts = [(str(name), str(text)) for name, text in loads(stored.get_tensor("facts").tobytes())]
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            raise BadData(
                f"{path} is not a saved fact memory", hint="delete the file and run the command again"
            ) from error
        if about.get("encoder") != encoder.id or len(facts) != len(vectors):
            raise BadData(
                f"{path} was not made with the encoder {encoder.id}", hint="delete the file and run the command again"
            )
        memory = cls(encoder)
        memory._append(facts, vectors)
        return memory

    @property
    def vectors(self) -> Vectors:
        """The vectors by row, including empty rows: a view to read only."""
        return self._matrix[: len(self._facts)]

    def _append(self, facts: list[tuple[str, str]], vectors: Vectors) -> None:
        """Append rows. The matrix is only copied if it has no room."""
        start, end = len(self._facts), len(self._facts) + len(facts)
        if not start:
            self._matrix = vectors
        else:
            if end > len(self._matrix):
                old = self.vectors
                self._matrix = np.empty((max(end, int(SPARE * start)), old.shape[1]), dtype=np.float32)
                self._matrix[:start] = old
            self._matrix[start:end] = vectors
        self._facts += facts
        self._row |= {name: row for row, (name, _text) in enumerate(facts, start=start)}

    def _pack(self) -> None:
        """Remove the empty rows."""
        if not self._empty:
            return
        facts, vectors = list(self.facts), self._matrix[list(self._row.values())]
        self._row, self._facts, self._empty = {}, [], []
        self._append(facts, vectors)


def best_rows(scores: Vectors, k: int) -> list[int]:
    """Return the ``k`` best rows, best first, earlier rows first among equals, without rows at minus infinity.

    Scores are rounded before they are compared: the last bits of a matrix product depend on its number of rows, and
    must not order equal vectors. Only rows that may be among the best are rounded and sorted.
    """
    rows = np.flatnonzero(scores >= _floor(scores, k))
    rounded = np.round(scores[rows], DECIMALS)
    best = rows[np.argsort(-rounded, kind="stable")][:k]
    return [int(row) for row in best if np.isfinite(scores[row])]


def _floor(scores: Vectors, k: int) -> float:
    """Return a score that each of the ``k`` best rows reaches even when rounded.

    The k-th best of the groups' best scores is such a score: at least k rows reach it.
    """
    groups = len(scores) // GROUP
    if k > groups:
        lowest = float(np.partition(scores, len(scores) - k)[len(scores) - k]) if k < len(scores) else -np.inf
    else:
        best = scores[: groups * GROUP].reshape(groups, GROUP).max(axis=1)
        lowest = float(np.partition(best, groups - k)[groups - k])
    return lowest - 10.0**-DECIMALS - 1e-6 * abs(lowest)
