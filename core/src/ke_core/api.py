"""The Python API, for notebooks and scripts: ``import ke_core as ke``.

::

    model = ke.load("smollm2-135m")
    with ke.edit(model, "The capital of {} is", subject="Peru", target="Cusco", editor="memit") as edited:
        print(edited.generate("The capital of Peru is"))
    for run in ke.evaluate(model, editors=["none", "memit"], dataset="atlas", limit=5):
        print(run.path, run.scores)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from ke_core.cli.console import err, progress
from ke_core.cli.running import prepare_editors, run_folder
from ke_core.engine.models import DEFAULT_LOADING
from ke_core.plugins.catalog import Catalog, read_catalog
from ke_core.plugins.manager import discover
from ke_core.plugins.options import option_text
from ke_core.results.folder import RunFolder
from ke_core.results.load import read_scores
from ke_core.runner.apply import EditApplier, untouched
from ke_core.runner.edit_files import edit_from
from ke_core.runner.evaluate import evaluate as evaluate_run
from ke_core.runner.prepare import refuse_weightless
from ke_core.runner.resolve import resolve_component
from ke_core.runner.run import EvalRequest
from ke_core.runner.session import ModelChoice, open_session
from ke_core.spec.errors import EditFailed, UnsupportedEdit
from ke_core.spec.prompts import Decoding, Parse, Prompt
from ke_core.spec.protocols import Edited, LanguageModel, Session
from ke_core.spec.requests import Likelihood, Question
from ke_core.spec.results import Failure, MetricScore
from ke_core.spec.runspec import Plan
from ke_core.storage.json_reading import SourceLine


@frozen(kw_only=True)
class Model:
    """A language model, and how it was loaded. ``module`` is the transformers model, if it is in this process."""

    model: LanguageModel
    choice: ModelChoice

    @property
    def module(self) -> Any:
        """The transformers model. It is the edited one while an edit of a weight editor is active."""
        return self.model.module  # type: ignore[attr-defined]


def load(name: str = "smollm2-135m", **how: Any) -> Model:
    """Load a model by its name, folder or hub id, as ``ke eval --model`` does.

    ``how``: ``dtype``, ``device``, ``device_map``, ``chat``, ``trust_remote_code``; see ``ModelRequest``.
    """
    choice = ModelChoice(reference=name, how=evolve(DEFAULT_LOADING, **how))
    with progress(err()) as shown:
        return Model(model=choice.load(catalog(), shown), choice=choice)


def connect(url: str, model: str, **how: Any) -> Model:
    """Use a model behind an OpenAI-compatible server. ``how``: ``concurrency``, ``timeout``, ``api_key_env``,
    ``chat``.
    """
    return load(f"openai:{model}", base_url=url, **how)


@cache
def catalog() -> Catalog:
    """Return the installed plugins."""
    return read_catalog(discover())


@frozen(kw_only=True)
class EditedModel:
    """A model whose edits are active. Weights are restored when the context ends."""

    edited: Edited
    session: Session[Any]
    _ids: Iterator[int] = field(factory=count)

    def generate(self, prompt: str, *, max_tokens: int = 16, stop: Sequence[str] = ("\n",)) -> str:
        """Return the text with which the edited model continues ``prompt``. Raises EditFailed."""
        decoding = Decoding(max_tokens=max_tokens, stop=tuple(stop))
        shown = Prompt(text=prompt, decoding=decoding, parse=Parse(until=""))
        ask = Question(id=f"api/{next(self._ids)}", case="api", query="", texts=(prompt,), form="cloze", prompt=shown)
        return str(self._reply(ask).text).strip()

    def logprob(self, prompt: str, continuation: str) -> float:
        """Return the natural log-probability of ``continuation`` after ``prompt``, summed over its tokens."""
        texts = (f" {continuation.lstrip()}",)
        ask = Likelihood(
            id=f"api/{next(self._ids)}", case="api", texts=(prompt,), prompt=prompt, continuations=texts, form="cloze"
        )
        return float(self._reply(ask).logprobs[0])

    def _reply(self, ask: Question | Likelihood) -> Any:
        (reply,) = self.edited.answer([ask])
        if isinstance(reply, Failure):
            raise EditFailed(f"the edited model gives no answer: {reply.message}")
        return reply


@contextmanager
def edit(
    model: Model,
    prompt: str = "",
    *,
    subject: str = "",
    target: str = "",
    edits: Sequence[Mapping[str, Any]] = (),
    editor: str = "memit",
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Iterator[EditedModel]:
    """Edit one fact (``prompt``, ``subject``, ``target``) or several ``edits`` while the context is open.

    ``prompt`` has ``{}`` or the subject itself in the place of the subject. Each of ``edits`` is a mapping with
    the fields of an edit file. ``options`` are those of the editor. Raises UnsupportedEdit with the editor's reason.
    """
    given = [*edits, *([{"prompt": prompt, "subject": subject, "target_new": target}] if prompt else [])]
    facts = [edit_from(raw, SourceLine(file="ke.edit", line=number)).edit for number, raw in enumerate(given, start=1)]
    spec = catalog().spec("editor", editor)
    chosen: Any = resolve_component(catalog(), "editor", editor, {spec.prefix: _texts(options or {})})
    refuse_weightless(chosen.spec, model.model)
    with ExitStack() as active:
        with progress(err()) as shown:  # closed before the caller's code runs
            session = open_session(model.model, catalog=catalog(), seed=seed, progress=shown, material={})
            method = chosen.build()
            method.check(session, ())
            refused = chosen.spec.refused(method, session, facts)
            if refused:
                reasons = tuple(f"{fact.statement!r}: {refused[fact.id]}" for fact in facts if fact.id in refused)
                raise UnsupportedEdit(f"{editor} cannot make {len(refused)} of {len(facts)} edits", details=reasons)
            active.enter_context(untouched(model.model))
            joint, opens = not chosen.spec.one_at_a_time, chosen.spec.needs_weights
            applier = active.enter_context(EditApplier(session=session, editor=method, joint=joint, opens=opens))
            applied = applier.add(facts)
        yield EditedModel(edited=applied.edited, session=session)


@frozen(kw_only=True)
class Run:
    """A finished run: its folder, and its scores."""

    path: Path
    scores: tuple[MetricScore, ...]


def read_run(folder: str | Path) -> Run:
    """Read a run folder that has been scored. Raises BadRun."""
    return Run(path=Path(folder), scores=read_scores(RunFolder.open(Path(folder))).scores)


def evaluate(
    model: Model,
    *,
    editors: Sequence[str],
    dataset: str,
    limit: int | None = None,
    edits_per_batch: int | None = 1,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    metrics: Sequence[str] = (),
    seed: int = 0,
    out: str | Path = "runs",
) -> list[Run]:
    """Evaluate each editor on the same cases, in a run folder of its own in ``out``.

    A run that was interrupted is resumed. ``edits_per_batch``: the number of cases that are edited together; None for
    all of them. ``options``: ``{"memit": {"layers": "4,5,6"}}``.
    """
    request = EvalRequest(
        editor=editors[0],
        dataset=dataset,
        model=model.choice,
        options={name: _texts(values) for name, values in (options or {}).items()},
        plan=Plan(limit=limit, size=edits_per_batch),
        metrics=tuple(metrics),
        seed=seed,
    )
    places = []
    with progress(err()) as shown:
        for run in [*prepare_editors(catalog(), editors, request, shown, model.model)]:
            places.append(RunFolder.create(run_folder(Path(out), run.spec), run.spec, run.files))
            evaluate_run(run, places[-1])
    return [read_run(place.path) for place in places]


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return option values as the command line has them."""
    return {name: option_text(value, name) for name, value in options.items()}
