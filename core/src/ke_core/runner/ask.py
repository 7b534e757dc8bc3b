"""The asking of a run: the unedited model first, then group by group, edited and given back.

::

    ask the unedited model everything that depends on it alone
    for each group of cases:
        with untouched(model), editor.edit(session, edits of the group) as edited:
            record edited.answer(questions), which ke_core.runner.blinding has made opaque

Every chunk of answers is on the disk before the next is asked. What is on record is not asked again, so a
run that was killed goes on where it stopped: a group that is not finished is edited again and asked the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter

from attrs import evolve

from ke_core.results.folder import RunFolder
from ke_core.results.writer import Writer
from ke_core.runner.blinding import Blinder
from ke_core.runner.concurrent import ask_groups
from ke_core.runner.distributed import Planned, refuse_gaps, shared
from ke_core.runner.job import Finished, Job
from ke_core.runner.log import log_losses, phase
from ke_core.runner.loop import UNEDITED_BATCH, Runner
from ke_core.runner.plan import Group, Share, Stage, groups, stages
from ke_core.runner.recorder import Recorder
from ke_core.runner.requests import RequestBuilder
from ke_core.runner.sequential import ask_in_sequence
from ke_core.runner.usage import FREE, Prices, since_last
from ke_core.runner.world import world
from ke_core.spec.errors import BadConfig, NeedsWeights, NoLikelihood, ServerFailed
from ke_core.spec.protocols import LanguageModel, Likelihood, RemoteModel
from ke_core.spec.requests import Procedure, Score
from ke_core.spec.results import Failure, Scored
from ke_core.spec.specs import EditorSpec


def evaluate(job: Job, folder: RunFolder, *, prices: Prices = FREE, held: Writer | None = None) -> Finished:
    """Ask what is not yet on record. Raises KEErrors; whatever happens, the model is given back first.

    What a server was asked is on record too, with the ``prices`` of its tokens. ``held``: the writer of a run that goes
    on when all is asked.
    """
    started, here = perf_counter(), world()
    refuse(job)
    blinder = Blinder.of(job)
    job = evolve(job, session=blinder.session)
    to_do = planned(job)
    in_order = stages(to_do, job.spec.plan) if job.spec.plan.sequential else []
    asked = [stage.asked for stage in in_order] or to_do
    with shared(folder, here, [*to_do, *asked], UNEDITED_BATCH, held) as writer:
        recorder = Recorder(writer, spent=partial(since_last, job.session.model, prices))
        recorder.recall(folder.read())
        share = Share.of(asked, here, whole=not in_order)
        loop = Runner(
            job=job,
            blinder=blinder,
            recorder=recorder,
            before=job.session.model.state(),
            share=share,
            base=Share.of(to_do, here),
            leads=here.leads,
            total=sum(len(share.cases(group)) for group in asked),
        )
        try:
            _ask(loop, to_do, in_order, folder)
        finally:
            recorder.add_spent()  # an interrupted run has paid too
            log_losses(folder, recorder)
    if here.size > 1 and here.leads:
        recorder = Recorder(writer)
        recorder.recall(folder.read())  # what the other processes recorded
        asker = RequestBuilder.of(job.spec, job.editor_spec, job.dataset)
        refuse_gaps(Planned(spec=job.spec, editor=job.editor_spec, asker=asker, groups=to_do, asked=asked), folder)
    skipped = sum(len(batch.skipped) for batch in recorder.batches.values())
    return Finished(failures=recorder.failures, skipped=skipped, seconds=perf_counter() - started)


def _ask(loop: Runner, to_do: Sequence[Group], in_order: Sequence[Stage], folder: RunFolder) -> None:
    job, recorder, total = loop.job, loop.recorder, loop.total
    model, known = job.session.model, {*recorder.batches}
    if job.editor_spec.needs_model:
        with phase(folder, "unedited model", model):
            loop.ask_unedited(to_do)
    job.session.progress.advance("edited model", 0, total)
    with phase(folder, "edited model", model) as taken:
        try:
            if in_order:
                ask_in_sequence(loop, in_order)
            else:
                ask_groups(loop, [group for group in to_do if loop.share.takes(group)])
        finally:
            made = [batch for name, batch in recorder.batches.items() if name not in known]
            taken.facts |= {"edits": sum(b.edits for b in made), "edit_seconds": round(sum(b.seconds for b in made), 3)}


def planned(job: Job) -> list[Group]:
    """The groups of the run. Raises BadConfig where the plan does not fit the cases."""
    return groups(job.cases, job.spec.plan, job.spec.seed, job.dataset.split)


def refuse(job: Job) -> None:
    """Raise for what can be known to go wrong before anything is asked."""
    refuse_weightless(job.editor_spec, job.session.model)
    if job.hides and not job.editor_spec.masks:
        dataset, editor = job.spec.dataset.component.name, job.spec.editor.name
        raise BadConfig(
            f"{dataset} hides edits from some cases, and {editor} cannot hide any",
            hint="choose an editor that can, or switch the dataset's masking off",
        )
    job.editor.check(job.session, ())  # an editor that cannot work in this model at all raises here
    _refuse_unscored(job)


def refuse_weightless(spec: EditorSpec, model: LanguageModel) -> None:
    """Raise NeedsWeights for an editor that changes weights, of a model that has none here."""
    if spec.needs_weights and not hasattr(model, "patch"):
        raise NeedsWeights(
            f"{spec.name} changes weights, and {model.id} has none here",
            hint="choose a model that is loaded locally (hf:...), or an editor that keeps its edits in a memory",
        )


def _refuse_unscored(job: Job) -> None:
    """Raise NoLikelihood where log-probabilities are needed of a server that gives none, ServerFailed for a sick one.

    Some servers ignore the wish without a word, so one is asked for. It comes out of the cache when the run goes on.
    """
    model, wanting = job.session.model, _wanting_scores(job)
    if not (wanting and isinstance(model, RemoteModel)):
        return
    tried = job.session.engine.run({"scores": _try_score()})["scores"]
    if isinstance(tried, Failure) and tried.passing:
        raise ServerFailed(
            f"{wanting} needs log-probabilities, and {model.id} could not be tried: {tried.message}",
            hint="start the same run again later",
        )
    if isinstance(tried, Failure):
        raise NoLikelihood(
            f"{wanting} needs log-probabilities, and {model.id} gives none: {tried.message}",
            hint="choose metrics that need none (--metric), an option of the dataset that asks for none (ke show), "
            "a server whose /completions has 'echo' with 'logprobs', or a local model",
        )


def _wanting_scores(job: Job) -> str:
    """What of the run needs log-probabilities, in words; empty if nothing does."""
    for measure in job.asking:
        if any(isinstance(ask, Likelihood) for ask in measure.asks):
            return f"metric {measure.component.name}"
    asked = any(query.continuations for case in job.cases for probe in case.probes for query in probe.queries)
    return f"dataset {job.spec.dataset.component.name}" if asked else ""


def _try_score() -> Procedure[Scored]:
    scored: Scored = yield Score(prompt="The capital of France is", continuations=(" Paris",))
    return scored
