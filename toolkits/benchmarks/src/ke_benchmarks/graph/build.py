"""The interface of builders: ``ke build FAMILY --graph GRAPH --out FILE``.

A builder yields records in its family's published format, so that the family's own loader (and other software) can
read them. An embedded dataset is the builder applied to the atlas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from ke_benchmarks.graph.base import KnowledgeGraph
from ke_core.plugin import Case, Entity, Failure, Gold, Procedure, Spec

Record = Mapping[str, Any]
"""JSON values that ``json.dumps`` accepts."""


@frozen(kw_only=True)
class RecallProbe:
    """A single fact to check a model's recall: a question, the same as a cloze, and the right answer."""

    question: str
    cloze: str
    gold: Gold


@frozen(kw_only=True)
class BuildTools:
    """Inputs of a builder besides the graph.

    ``cases``: number of requested cases. ``recalls``: for each fact, whether the model of ``--model`` recalls it
    (always True without one). ``phrase``: rewrites questions with the model of ``--phrase-with`` (unchanged without
    one). ``dropped``: counts a dropped candidate by its reason. ``run``: advances procedures on the model of
    ``--with-model``, by id (None without one).
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
        """Yield up to ``tools.cases`` records in the family's published format, deterministic for a graph and seed.

        Raises BadData with the reason if the graph is too small for a single record.
        """
        ...


@runtime_checkable
class QuestionBuilder(Protocol):
    """A builder that can also start from questions, with facts written by a model: ``--from FILE --with-model M``."""

    def from_questions(self, path: Path, tools: BuildTools) -> Iterator[Record]:
        """Yield up to ``tools.cases`` records for the questions of the file, with ``tools.run``. Raises BadData."""
        ...


@frozen(kw_only=True)
class GraphEdit:
    """An edit of a fact of a graph. ``subject`` and ``relation``: by key. ``new``: an entity or a literal."""

    subject: str
    relation: str
    new: Entity


@runtime_checkable
class EditBuilder(Protocol):
    """A builder that can also start from given edits: ``ke facts expand``."""

    def from_edits(
        self, edits: Sequence[GraphEdit], graph: KnowledgeGraph, changing: Collection[str] = ()
    ) -> list[Case | str]:
        """Return the case of each edit, or why the builder cannot make one.

        All edits are made together. No test depends on a fact that another edit may change. ``changing``: keys of
        entities of which any fact may change too.
        """
        ...


@frozen(kw_only=True)
class BuilderSpec(Spec[Builder]):
    """A builder with the name of its family. Its options are set as ``-o build.option=value``."""

    family: str = "build"
