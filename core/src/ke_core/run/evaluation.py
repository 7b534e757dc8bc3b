"""The whole of a run, as the command line asks for it: prepare, evaluate, judge, score.

::

    job = prepare(request, catalog, progress)          # resolves, validates, loads the model
    folder = RunFolder.create(path, job.spec)          # new, or the same run again: it goes on where it stopped
    finished = run(job, folder)                        # asks, judges, scores

and afterwards, without the edited model: ``judge(...)`` and ``score(...)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from ke_core.data.queries import Case, Form
from ke_core.data.results import Score
from ke_core.data.runspec import Plan
from ke_core.plugins.catalog import Catalog
from ke_core.protocols import LanguageModel, Progress
from ke_core.results.folder import RunFolder
from ke_core.run.job import Job

Options = Mapping[str, Mapping[str, str]]
"""``{prefix: {field: text}}``, as ``ke_core.plugins.options.split`` makes it."""


@frozen(kw_only=True)
class ModelChoice:
    """``--model`` and how to load it. ``reference`` is ``source:id@revision``.

    Without a source it is a local folder, else a name from ``ke models list``, else a hub id.
    """

    reference: str
    dtype: str = "float32"
    device: str = ""
    device_map: str = ""
    chat: bool = False
    trust_remote_code: bool = False


@frozen(kw_only=True)
class EvalRequest:
    """What ``ke eval`` was asked for; empty means the dataset's (or the editor's) own choice.

    ``data_dir`` and ``prompts`` set the dataset's options of that name.
    """

    editor: str
    dataset: str
    model: ModelChoice
    options: Options = field(factory=dict)
    plan: Plan = Plan()
    styles: tuple[str, ...] = ()
    edited_form: Form | None = None
    judge: str = ""
    metrics: tuple[str, ...] = ()
    seed: int = 0
    prompts: str = ""
    data_dir: str = ""


@frozen(kw_only=True)
class Finished:
    """How a run ended. ``failures``: replies that are a ``Failure`` (exit status 1 if any), ``skipped``: cases.

    ``seconds`` is the wall time of this call, not of what was recorded before it.
    """

    failures: int
    skipped: int
    seconds: float
    scores: tuple[Score, ...] = ()


def load_model(choice: ModelChoice, catalog: Catalog) -> LanguageModel:
    """Load the model: where several editors are compared, once for all of them."""


def prepare(
    request: EvalRequest, catalog: Catalog, progress: Progress, *, model: LanguageModel | None = None
) -> Job:
    """Resolve, validate and build everything, and load the model unless it is given. Nothing is written."""


def run(job: Job, folder: RunFolder) -> Finished:
    """Ask what is not yet on record, judge what is not yet judged, score."""


def judge(folder: RunFolder, catalog: Catalog, *, name: str = "", options: Options = {}, data_dir: str = "") -> int:
    """``ke judge RUN``: judge the recorded replies again, by ``name`` or the dataset's judge; lines written."""


def score(
    folder: RunFolder,
    catalog: Catalog,
    *,
    metrics: Sequence[str] = (),
    judge: str = "",
    options: Options = {},
    data_dir: str = "",
) -> list[Score]:
    """``ke score RUN``: write ``scores.json`` from the records alone (default: the dataset's metrics, the last judge)."""
