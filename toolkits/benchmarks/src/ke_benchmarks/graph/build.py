"""How a dataset family makes cases from a knowledge graph: ``ke build FAMILY --graph GRAPH --out FILE``.

A builder yields records in its family's published format, so that what is built is read by the family's own loader
(and by others' software), and an embedded dataset is the builder applied to the atlas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from ke_benchmarks.graph.base import KnowledgeGraph
from ke_core.plugin import Failure, Gold, Procedure, Spec

Record = Mapping[str, Any]
"""JSON values only: what ``json.dumps`` takes."""


@frozen(kw_only=True)
class RecallProbe:
    """A single fact put to a model, to see whether it knows it: a question, the same as a cloze, what is right."""

    question: str
    cloze: str
    gold: Gold


@frozen(kw_only=True)
class BuildTools:
    """What a builder is given beside the graph.

    ``cases`` is how many are wanted. ``recalls`` says of each fact whether the model named with ``--model`` knows it
    (all, without one). ``phrase`` rewrites questions, one for one, with the model named with ``--phrase-with`` (as they
    are, without one). ``dropped`` counts a candidate that was left out, by its reason. ``run`` advances procedures on
    the model named with ``--with-model``, by id (None, without one).
    """

    cases: int = 300
    seed: int = 0
    recalls: Callable[[Sequence[RecallProbe]], Sequence[bool]] = field(default=lambda asked: [True] * len(asked))
    phrase: Callable[[Sequence[str]], Sequence[str]] = field(default=lambda texts: texts)
    dropped: Callable[[str], None] = field(default=lambda _reason: None)
    run: Callable[[Mapping[str, Procedure[Any]]], Mapping[str, Any | Failure]] | None = None


@runtime_checkable
class Builder(Protocol):
    """A family's construction pipeline."""

    def records(self, graph: KnowledgeGraph, tools: BuildTools) -> Iterator[Record]:
        """Up to ``tools.cases`` records in the family's published format; the same for the same graph and seed.

        Raises BadData if the graph has too little for a single one, saying what it lacks.
        """
        ...


@runtime_checkable
class QuestionBuilder(Protocol):
    """A builder that can also start from questions, whose facts a model writes: ``--from FILE --with-model M``."""

    def from_questions(self, path: Path, tools: BuildTools) -> Iterator[Record]:
        """Up to ``tools.cases`` records for the questions of the file, made with ``tools.run``. Raises BadData."""
        ...


@frozen(kw_only=True)
class BuilderSpec(Spec[Builder]):
    """A builder by the name of its family; its options are given as ``-o build.option=value``."""

    family: str = "build"
