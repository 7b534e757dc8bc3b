"""A training of ``ke train``.

::

    job = prepare(...)                           # resolves, reads the examples, loads the model, finds the checkpoint
    for step in train(job, minutes, stop):       # continues until the time is over or ``stop`` returns True
        ...

Checkpoints are written at intervals and at the end. A step depends on its number and not on the time, so an interrupted
or killed training resumes from its last checkpoint with the same result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import BufferedWriter
from pathlib import Path
from time import monotonic
from typing import Any

from attrs import define, field

from ke_core.app import (
    Catalog,
    ModelChoice,
    NoModel,
    Options,
    first_difference,
    open_session,
    refuse_weightless,
    reject_unused,
    resolve_component,
    whole_lines,
    with_data_dir,
)
from ke_core.plugin import (
    BadConfig,
    BadData,
    BadRun,
    EditorSpec,
    LanguageModel,
    Progress,
    canonical,
    digest,
    file_errors,
    loads,
    locked,
    read_object,
    to_json,
    write_atomic,
)
from ke_weights.examples import read_examples, usable
from ke_weights.trained import (
    CHECKPOINT,
    LOSSES,
    TRAINING,
    Checkpoint,
    read_checkpoint,
    trained_folder,
    write_checkpoint,
)
from ke_weights.trainers import Trainer, Training, TrainStep

SAVE_SECONDS = 60.0
EMPTY: Options = {}
ELSEWHERE = "choose another folder with --out, or delete this one to start over"


@define
class TrainJob:
    """A training ready to continue. ``step``, ``seconds``: done so far; ``losses``: one line per step."""

    editor: str
    training: Training
    folder: Path
    about: Mapping[str, Any]
    progress: Progress
    step: int = 0
    seconds: float = 0.0
    losses: list[dict[str, float]] = field(factory=list)


def prepare(
    editor: str,
    choice: ModelChoice,
    data: str,
    catalog: Catalog,
    progress: Progress,
    *,
    without: Sequence[str] = (),
    options: Options = EMPTY,
    out: Path | None = None,
    seed: int = 0,
    data_dir: str = "",
) -> TrainJob:
    """Resolve, validate and build everything, and resume from a checkpoint in the folder ``out`` (None: the cache).

    ``data`` and ``without``: JSON files or datasets. Raises KEErrors: an editor without a trainer, unsuitable examples,
    a model that cannot be loaded, a folder that contains another training.
    """
    chosen = resolve_component(catalog, "editor", editor, options)
    spec = chosen.spec
    assert isinstance(spec, EditorSpec)
    if spec.trainer is None:
        raise BadConfig(f"editor {spec.name} needs no training", hint=f"editors with a training: {_trainable(catalog)}")
    datasets = [
        catalog.spec("dataset", name)
        for name in (data, *without)
        if name in catalog.names("dataset") and not Path(name).is_file()
    ]
    reject_unused(options, [spec, *datasets])
    read = partial(read_examples, catalog=catalog, options=with_data_dir(datasets, options, data_dir))
    examples = usable(read(data), [example for source in without for example in read(source)])
    if not examples:
        raise BadData(f"{data} has no example left to train on", hint="check the file and --without")
    loaded: LanguageModel = NoModel()
    if spec.trainer.needs_model:
        loaded = choice.load(catalog, progress)
        loaded.state()  # for the digest of the current weights
        refuse_weightless(spec, loaded)
    session = open_session(loaded, catalog=catalog, seed=seed, progress=progress, material={})
    trainer: Trainer = spec.trainer.build(chosen.config)
    about: dict[str, Any] = {
        "editor": spec.name,
        "version": chosen.component.version,
        "model": loaded.id,
        "place": dict(trainer.place(session)),
        "recipe": dict(trainer.recipe(session)),
        "examples": {"count": len(examples), "sha256": digest([to_json(example) for example in examples])},
        "seed": seed,
    }
    folder = out or trained_folder(session.artifacts, spec.name, about["place"])
    saved = _saved(folder, about)
    training = trainer.start(session, examples, saved.tensors if saved else None)
    if not saved:
        write_atomic(folder / TRAINING, (json.dumps(about, indent=1, sort_keys=True) + "\n").encode())
    job = TrainJob(editor=spec.name, training=training, folder=folder, about=about, progress=progress)
    if saved:
        job.step, job.seconds = saved.step, saved.seconds
        job.losses = [line for line in read_losses(folder) if line["step"] <= saved.step]
    return job


def train(job: TrainJob, minutes: float, stop: Callable[[], bool]) -> Iterator[TrainStep]:
    """Train until the total time is ``minutes``, the training is finished, or ``stop()``; then write a checkpoint.

    Raises BadRun if another process trains in that folder, or has since ``job`` was prepared.
    """
    label, budget = f"training {job.editor} (s)", minutes * 60
    with _locked_folder(job), file_errors(f"cannot write {job.folder / LOSSES}"), _losses(job) as lines:
        saved_at = last = monotonic()
        unsaved = 0
        while job.seconds < budget and not stop() and not job.training.finished():
            step = job.training.advance()
            now = monotonic()
            job.seconds, job.step, last, unsaved = job.seconds + now - last, step.step, now, unsaved + 1
            line = {"step": step.step, "loss": step.loss, **step.numbers, "seconds": round(job.seconds, 3)}
            job.losses.append(line)
            lines.write(canonical(line).encode() + b"\n")
            job.progress.advance(label, min(int(job.seconds), int(budget)), int(budget))
            if now - saved_at >= SAVE_SECONDS:
                _save(job, lines)
                saved_at, unsaved = monotonic(), 0
            yield step
        if unsaved:
            _save(job, lines)
        job.progress.advance(label, int(budget), int(budget))


def read_losses(folder: Path) -> list[dict[str, float]]:
    """Return every recorded step in order, without a last line torn by a killed process."""
    file = folder / LOSSES
    try:
        return [loads(line) for _number, line in whole_lines(file)]
    except ValueError as error:
        raise BadData(f"{file} is damaged: {error}", hint="delete it; the checkpoint does not need it") from error


@contextmanager
def _locked_folder(job: TrainJob) -> Iterator[None]:
    """Lock the folder, and check that it is as it was when ``job`` was prepared."""
    with locked(job.folder / ".lock", busy=f"another process is training in {job.folder}"):
        found = read_checkpoint(job.folder)
        if (found.step if found else 0) != job.step:
            raise BadRun(f"another process has just trained in {job.folder}", hint="run the same command again")
        yield


def _losses(job: TrainJob) -> BufferedWriter:
    """Open the file of losses, truncated to the checkpoint: later steps will be repeated."""
    kept = b"".join(canonical(line).encode() + b"\n" for line in job.losses)
    write_atomic(job.folder / LOSSES, kept)
    return (job.folder / LOSSES).open("ab")


def _save(job: TrainJob, lines: BufferedWriter) -> None:
    lines.flush()
    tensors = job.training.tensors()
    write_checkpoint(job.folder, Checkpoint(about=job.about, step=job.step, seconds=job.seconds, tensors=tensors))


def _saved(folder: Path, about: Mapping[str, Any]) -> Checkpoint | None:
    """Return the checkpoint to resume from. Raises BadRun for a folder with other content."""
    file = folder / TRAINING
    if folder.exists() and not folder.is_dir():
        raise BadRun(f"{folder} is not a folder", hint=ELSEWHERE)
    if not file.exists():
        leftover = f".{TRAINING}."  # of a process that was killed while writing
        if folder.is_dir() and not all(path.name.startswith(leftover) for path in folder.iterdir()):
            raise BadRun(f"{folder} contains other files, not a training", hint=ELSEWHERE)
        return None
    known = read_object(file, error=BadRun, hint=ELSEWHERE)
    found = read_checkpoint(folder)
    wanted = _settings(loads(canonical(about)))
    for was, name in ((known, TRAINING), (found.about if found else known, CHECKPOINT)):
        there = _settings(was)
        if there != wanted:
            raise BadRun(
                f"{folder} contains another training ({name}): {first_difference(there, wanted)}", hint=ELSEWHERE
            )
    return found


def _settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be equal: not the model's name, because ``place`` identifies its weights."""
    return {name: value for name, value in about.items() if name != "model"}


def _trainable(catalog: Catalog) -> str:
    specs = {name: catalog.spec("editor", name) for name in catalog.names("editor")}
    names = [name for name, spec in specs.items() if isinstance(spec, EditorSpec) and spec.trainer]
    return ", ".join(names) or "none installed"
