"""The interfaces that plugins implement, and the objects that they get. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from attrs import field, frozen

from ke_core.spec.dataset_info import DatasetInfo
from ke_core.spec.facts import Edit
from ke_core.spec.prompts import Prompt
from ke_core.spec.queries import Case, Query
from ke_core.spec.requests import EditorRequest, Encoder, Generate, Generated, Procedure, Score
from ke_core.spec.results import CaseRecord, Details, Failure, Item, Judgment, ModelRecord, Reply, Scored, Value

T = TypeVar("T")
Completed = Generated | Scored | Exception
"""The result of a request to a model, or its error."""
NextRequests = Callable[[Mapping[int, Completed], bool], Sequence[Generate | Score]]
"""Gets results by position, and whether the call was interrupted (then they are only saved). Returns what follows.

A model also calls it without results while it works, because further requests may have arrived.
"""
Exchange = Callable[[Mapping[str, Reply]], Sequence[EditorRequest]]
"""Gets replies by the ids of their requests, each once, and returns requests that have arrived."""


@runtime_checkable
class LanguageModel(Protocol):
    """A model that continues text. It gets lists of requests, and batches them itself."""

    @property
    def id(self) -> str:
        """``source:id@revision``, for display."""

    @property
    def context(self) -> int:
        """The context length: prompt and continuation together, in tokens."""

    @property
    def digest(self) -> str:
        """Identifies the current weights, edits included. Cached results are stored under it."""

    def state(self) -> Mapping[str, object]:
        """Return values that change whenever the model changes. Empty for a remote model.

        It reads the weights again, so ``digest`` is right even if they were changed without ``patch``.
        """

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """Return one result per request, in order. The error of a request takes the place of its result."""

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """Return one result per request, in order. Raises NoLikelihood if the server returns no log-probabilities."""


@runtime_checkable
class ReportsProgress(Protocol):
    """A model that calls ``on_progress`` with the number of requests that a call has finished so far.

    A request that is half written counts as half a request; the sum is rounded down.
    """

    on_progress: Callable[[int], None] | None


@runtime_checkable
class SupportsCancel(Protocol):
    """A model that ends requests whose results nobody needs any more, with an error as their results.

    ``unneeded`` returns their positions in a call of ``complete``. The model calls it while it works.
    """

    unneeded: Callable[[], Collection[int]] | None


@runtime_checkable
class ContinuousModel(LanguageModel, Protocol):
    """A model that accepts more requests while it works on others (continuous batching)."""

    def complete(self, requests: Sequence[Generate | Score], following: NextRequests) -> None:
        """Complete ``requests`` and those that follow from them.

        Each result is passed to ``following``, in the caller's thread. The positions of the requests that it returns
        continue the earlier ones. Raises interrupts and exceptions of ``following``, and sends no more then.
        """


@runtime_checkable
class RemoteModel(ContinuousModel, Protocol):
    """A model behind a server. Completions cost money, so all are passed on as they arrive, even after an interrupt."""

    def limit_retries(self, *, attempts: int, seconds: float) -> None:
        """Try each request at most ``attempts`` times, and wait at most ``seconds`` in total."""


class Progress(Protocol):
    """Reports the progress of long work. The core never prints; the command line displays progress."""

    def track(self, items: Iterable[T], label: str, total: int | None = None) -> Iterable[T]:
        """Yield ``items`` and count them. The work has ended when the loop does, even if items are left."""
        if total is None and isinstance(items, Sized):
            total = len(items)
        done = 0
        self.advance(label, done, total)
        try:
            for done, item in enumerate(items, start=1):
                yield item
                self.advance(label, done, total)
        finally:
            end = done if total is None else total
            self.advance(label, end, end)

    def advance(self, label: str, done: int, total: int | None = None) -> None:
        """Report that ``done`` of ``total`` steps of ``label`` are done."""


class Engine(Protocol):
    """Advances many procedures concurrently and batches their requests."""

    @property
    def hits(self) -> int:
        """The number of requests that the completion cache has answered so far."""

    def run(self, procedures: Mapping[str, Procedure[T]]) -> dict[str, T | Failure]:
        """Run each procedure to its end. Their ids seed sampled requests, so ids must not depend on batches."""

    def answer(self, solve: Callable[[Any], Procedure[Reply]], requests: Sequence[EditorRequest]) -> list[Reply]:
        """Call ``solve`` for each request. Return the replies in order, with the cost of each answer."""

    def keep_answering(
        self,
        solve: Callable[[Any], Procedure[Reply]],
        exchange: Exchange,
        canceled: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """Answer requests that join those under way, until ``exchange`` returns none and all are answered.

        ``canceled`` returns the ids of requests whose replies nobody needs. They end with a ``Failure``.
        """


class Artifacts(Protocol):
    """A cache of computed files (key covariance, target vectors, templates)."""

    def path(self, kind: str, key: Mapping[str, Any], suffix: str) -> Path:
        """Return the path of the artifact of that kind and key. Its folder exists; the file may not.

        ``key`` contains everything that determines the content, as JSON values.
        """


@frozen(kw_only=True)
class Material:
    """Data that a dataset provides in addition to its cases. The dataset documents ``value`` under the material's name.

    ``oracle``: derived from gold answers. Keys ``case`` and ``case/query`` are looked up with the ids of a request.
    """

    value: Any
    oracle: bool = False


M_co = TypeVar("M_co", bound=LanguageModel, covariant=True)


@frozen(kw_only=True)
class Session(Generic[M_co]):
    """The objects that an editor or a judge gets for one run. Fields may be added, none removed.

    ``encoder`` loads a sentence encoder by name. ``material`` has oracle material only if the editor's specification
    requests it. ``upcoming`` returns edits that will later be made on the model as it is now (``runner/steps.py``).
    """

    model: M_co
    engine: Engine
    encoder: Callable[[str], Encoder]
    artifacts: Artifacts
    progress: Progress
    seed: int = 0
    material: Mapping[str, Material] = field(factory=dict)
    upcoming: Callable[[], Sequence[Edit]] = tuple


@runtime_checkable
class Edited(Protocol):
    """An edited model, which answers requests."""

    @property
    def details(self) -> Details:
        """Details of the edit that the editor records, as JSON values."""

    def answer(self, requests: Sequence[EditorRequest]) -> Sequence[Reply]:
        """Return one reply per request, in order."""

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Remove edits and then add others, all or none of them. Raises UnsupportedChange."""


@runtime_checkable
class Editor(Protocol):
    """A knowledge-editing method. A weight editor may annotate ``session: Session[OpenModel]``."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Return the edits that cannot be made: the reason by edit id. Called before anything changes.

        It is called without edits before the first request: raises a KEError if it cannot edit this model at all.
        """

    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> AbstractContextManager[Edited]:
        """Apply ``edits`` while the context is open. Its exit restores the model."""


@runtime_checkable
class Dataset(Protocol):
    """A benchmark: its cases, their prompts, and which edits are hidden from each case."""

    def cases(self) -> Iterator[Case]:
        """Yield every case in the published order. Repeated calls yield equal cases."""

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the prompt for ``query.texts[0]`` in that style, or None if the query has none."""

    def split(self, k: int, seed: int) -> Mapping[str, str] | None:
        """Return the dataset's split for ``k`` edited cases (case id to ``edited``, ``unedited``), or None."""

    def hides(self, case: Case, bank: Mapping[str, Edit], *, edited: bool) -> frozenset[str]:
        """Return the ids of the edits in ``bank`` that are hidden from ``case`` (dynamic masking)."""

    def material(self) -> Mapping[str, Material]:
        """Return demonstrations, aliases, oracle answers and so on, by name."""

    def info(self) -> DatasetInfo:
        """Return license, source, checksum and published counts."""


@runtime_checkable
class Judge(Protocol):
    """Judges replies. It is a pure function unless its spec sets ``needs_model``."""

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """Return one judgment per item, in order. Items have no ``Failure``, and ``Scored`` only with ``scored``."""


@runtime_checkable
class Metric(Protocol):
    """Computes values from recorded cases. The core counts, averages and bootstraps them."""

    def values(self, record: CaseRecord) -> Iterable[Value]:
        """Yield every observation of this case. A missing one is a Value of None with the reason."""


@runtime_checkable
class ModelMetric(Protocol):
    """Computes values for each model as a whole (cost, side effects). A metric may be of both kinds."""

    def model_values(self, record: ModelRecord) -> Iterable[Value]:
        """Yield every observation of this model. A missing one is a Value of None with the reason."""


@runtime_checkable
class SupportsConcurrentSolve(Edited, Protocol):
    """An edited model that does not change the weights, so several of them can answer concurrently.

    Its ``answer`` is ``session.engine.answer(self.solve, requests)``.
    """

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Return the procedure that answers one request."""


@runtime_checkable
class SupportsSave(Edited, Protocol):
    """An edited model that can be saved, and loaded by ``EditorSpec.load``.

    It accepts further edits with ``change(add=...)``, so one file contains the edits of a whole sequence.
    """

    def save(self, path: Path) -> None:
        """Write everything that the editor added to the model to the file ``path``."""


@runtime_checkable
class HasDependencies(Protocol):
    """An editor that depends on more than its options, for example on an encoder or a trained network."""

    def dependencies(self, session: Session[Any]) -> Mapping[str, str]:
        """Return digests by name. They are part of a run's specification, so a run is resumed only with equal ones."""
