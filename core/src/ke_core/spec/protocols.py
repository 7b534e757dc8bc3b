"""The small interfaces that plugins implement, and what they are handed. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from attrs import field, frozen

from ke_core.spec.dataset_info import DatasetInfo
from ke_core.spec.errors import ContentRefused
from ke_core.spec.facts import Edit
from ke_core.spec.prompts import Prompt
from ke_core.spec.queries import Case, Query
from ke_core.spec.requests import Ask, Encoder, Generate, Generated, Procedure, Score
from ke_core.spec.results import CaseRecord, Details, Failure, Item, Judgment, ModelRecord, Reply, Scored, Value

T = TypeVar("T")
SaveReply = Callable[[int, Generated | Scored | ContentRefused], None]


# --- asks: what an edited model is given; never gold, hops or aliases (docs/concepts.md) --------------


# --- models and the engine -----------------------------------------------------------------------------


@runtime_checkable
class LanguageModel(Protocol):
    """Something that continues text. A list of requests comes together: batching is the model's business."""

    @property
    def id(self) -> str:
        """``source:id@revision``, for people."""
        ...

    @property
    def context(self) -> int:
        """The longest prompt and continuation together, in tokens."""
        ...

    @property
    def digest(self) -> str:
        """Names the weights as they are now, edits included: the key of everything computed from them."""
        ...

    def state(self) -> Mapping[str, object]:
        """Marks that differ when anything about the model differs; empty behind an API.

        Reads the weights afresh, so that ``digest`` is right even if someone changed them behind ``patch``.
        """
        ...

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """One result a request, in order; what is wrong with one request is returned in its place."""
        ...

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """One result a request, in order. Raises NoLikelihood where a server gives none."""
        ...


@runtime_checkable
class ReportsProgress(Protocol):
    """A model that calls ``on_progress`` with the number of finished requests while ``generate`` or ``score`` runs.

    A request that is half written counts as half a request; the sum is rounded down.
    """

    on_progress: Callable[[int], None] | None


@runtime_checkable
class RemoteModel(LanguageModel, Protocol):
    """A model behind a server, where each completion may have been paid for: none is to be lost with the others."""

    def complete(self, requests: Sequence[Generate | Score], keep: SaveReply) -> list[Generated | Scored | Exception]:
        """One result a request, in order, each given to ``keep`` with its place in the caller's thread as it comes.

        So is a refusal that was charged for. Raises only an interrupt, or what ``keep`` raises; nothing more is then
        sent, and what was under way is kept.
        """
        ...

    def limit_retries(self, *, attempts: int, seconds: float) -> None:
        """Try each request at most ``attempts`` times, and wait at most ``seconds`` in all where the server asks to."""
        ...


class Progress(Protocol):
    """Where long work says how far it is. The core computes and never prints; the command line draws."""

    def track(self, items: Iterable[T], label: str, total: int | None = None) -> Iterable[T]:
        """``items``, counted as they are taken."""
        ...

    def advance(self, label: str, done: int, total: int | None = None) -> None:
        """``done`` of ``total`` steps of ``label`` are behind us."""
        ...


class Engine(Protocol):
    """Advances procedures together and batches their requests."""

    @property
    def hits(self) -> int:
        """The number of requests that the completion cache has answered so far."""
        ...

    def run(self, procedures: Mapping[str, Procedure[T]]) -> dict[str, T | Failure]:
        """Run each procedure to its end. The ids seed sampled requests, so they must not depend on batches."""
        ...

    def answer(self, solve: Callable[[Any], Procedure[Reply]], asks: Sequence[Ask]) -> list[Reply]:
        """``solve`` each ask, in order; an ``Answer`` comes back with its cost filled in."""
        ...


class Artifacts(Protocol):
    """Files computed once and found again by what determines them (statistics, z vectors, templates)."""

    def path(self, kind: str, key: Mapping[str, Any], suffix: str) -> Path:
        """Where the artifact of that kind and key lives, whether it exists yet or not; its folder exists.

        ``key`` holds everything that determines the content, as JSON values.
        """
        ...


@frozen(kw_only=True)
class Material:
    """Something a dataset offers in addition to its cases; the dataset documents ``value`` under the material's name.

    ``oracle``: derived from gold answers. Ids in its keys (``case``, ``case/query``) are looked up by a request's ids.
    """

    value: Any
    oracle: bool = False


M_co = TypeVar("M_co", bound=LanguageModel, covariant=True)


@frozen(kw_only=True)
class Session(Generic[M_co]):
    """What an editor or a judge is given for one run. Frozen; fields may be added, none removed.

    ``encoder`` loads a sentence encoder by name. ``material`` is the dataset's; oracle material is there
    only if the editor's specification asked for it by name.
    """

    model: M_co
    engine: Engine
    encoder: Callable[[str], Encoder]
    artifacts: Artifacts
    progress: Progress
    seed: int = 0
    material: Mapping[str, Material] = field(factory=dict)


# --- editors ---------------------------------------------------------------------------------------------


@runtime_checkable
class Edited(Protocol):
    """An edited model is: something that answers."""

    @property
    def details(self) -> Details:
        """What the editor wants on record about this edit: JSON values."""
        ...

    def answer(self, asks: Sequence[Ask]) -> Sequence[Reply]:
        """One reply an ask, in order."""
        ...

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """While the model stays edited, take edits off and then others on: all or none. Raises UnsupportedChange."""
        ...


@runtime_checkable
class Editor(Protocol):
    """A knowledge-editing method. One that opens the model may annotate ``session: Session[OpenModel]``."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Which edits cannot be made, and why, by edit id; called before anything changes.

        Called without edits before anything is asked: raises a KEError for a model that it cannot edit at all.
        """
        ...

    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> AbstractContextManager[Edited]:
        """Make ``edits`` true for as long as the context is open; its exit leaves the model as it was."""
        ...


# --- datasets, judges, metrics ---------------------------------------------------------------------------


@runtime_checkable
class Dataset(Protocol):
    """A benchmark: cases, how they are asked, and which edits each must not see."""

    def cases(self) -> Iterator[Case]:
        """Every case, in the published order; twice over gives equal cases."""
        ...

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """How ``query.texts[0]`` is put in that style; None if it is not asked in that style."""
        ...

    def split(self, k: int, seed: int) -> Mapping[str, str] | None:
        """Case id to part (``edited``, ``unedited`` ...) where the dataset has its own split for k edited cases."""
        ...

    def hides(self, case: Case, bank: Mapping[str, Edit], *, edited: bool) -> frozenset[str]:
        """Ids of the edits in ``bank`` that ``case`` must not see (dynamic masking)."""
        ...

    def material(self) -> Mapping[str, Material]:
        """Demonstrations, aliases, oracle answers ..., by name."""
        ...

    def info(self) -> DatasetInfo:
        """License, source, checksum and published counts."""
        ...


@runtime_checkable
class Judge(Protocol):
    """Says what replies are worth. Pure unless its spec says ``needs_model``."""

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """One judgment an item, in order. It is given no ``Failure``, and no ``Scored`` unless its spec says so."""
        ...


@runtime_checkable
class Metric(Protocol):
    """Numbers from records alone; the core counts, averages and bootstraps."""

    def values(self, record: CaseRecord) -> Iterable[Value]:
        """Every observation of this case; one that cannot be made is a Value of None with its reason."""
        ...


@runtime_checkable
class ModelMetric(Protocol):
    """Numbers about each model as a whole (what an edit took, what it did to the rest); a metric may be both kinds."""

    def model_values(self, record: ModelRecord) -> Iterable[Value]:
        """Every observation of this model; one that cannot be made is a Value of None with its reason."""
        ...


@runtime_checkable
class SupportsConcurrentSolve(Edited, Protocol):
    """An edited model that leaves the model as it is, so that several stand side by side and are asked together.

    Its ``answer`` is ``session.engine.answer(self.solve, asks)``.
    """

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """The way to answer one ask."""
        ...


@runtime_checkable
class SupportsSave(Edited, Protocol):
    """An edited model that can be saved and loaded again by the ``load`` of its editor's specification.

    It takes further edits with ``change(add=...)``, so that one file holds the edits of a whole sequence.
    """

    def save(self, path: Path) -> None:
        """Write everything that the editor added to the model to the file ``path``."""
        ...


@runtime_checkable
class HasDependencies(Protocol):
    """An editor whose answers rest on more than its options say: the encoder of a name, a network trained before."""

    def dependencies(self, session: Session[Any]) -> Mapping[str, str]:
        """Digests by name, part of a run's specification: a run does not go on with others."""
        ...
