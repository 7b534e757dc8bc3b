"""``ke train``: train an editor that learns from examples."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from ke_core.app import App, completion, err, literal, model_choice, out, plain_table, progress, split_options, titled
from ke_core.app import options as shared

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ke_weights.training import TrainJob

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60  # columns of the curve
NOTE_SECONDS = 30.0
ROWS = 8  # of the table


@click.command("train")
@click.argument("editor", metavar="EDITOR", shell_complete=completion.component("editor"))
@shared.section(
    "Training",
    click.option("--data", required=True, metavar="FILE|DATASET", help="Edits to learn from, with paraphrases."),
    click.option("--without", multiple=True, metavar="FILE|DATASET",
                 help="Leave out edits that share a prompt or question with this test data (repeatable)."),
    click.option("--minutes", type=click.FloatRange(min=0, min_open=True), required=True, metavar="N",
                 help="Total training time."),
    click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER",
                 help="Where to save the checkpoint. [default: the folder where the editor looks for it]"),
    shared.seed_option,
    shared.data_dir,
    shared.component_options,
    shared.json_option,
)  # fmt: skip
@shared.model_options
@click.pass_obj
def command(app: App, /, *, editor: str, minutes: float, as_json: bool, **given: Any) -> None:
    """Train an editor that learns from examples.

    It saves a checkpoint every minute and at the end, also after Ctrl-C. The same command resumes the training.
    --minutes limits the total training time of the folder.

    \b
    Examples:
      ke train mend --model smollm2-135m --data edits.jsonl --minutes 30
      ke train mend --data mquake-cf --without mquake-cf-3k --minutes 240 -o mend.profile=paper
    """  # fmt: skip
    from ke_weights.training import prepare, train  # noqa: PLC0415  the runner imports numpy

    console = err()
    with progress(console) as shown:
        job = prepare(
            editor,
            model_choice(given),
            given["data"],
            app.catalog,
            shown,
            without=given["without"],
            options=split_options(given["options"]),
            out=given["out"],
            seed=given["seed"],
            data_dir=str(given["data_dir"] or ""),
        )
        count = job.about["examples"]["count"]
        console.print(literal(f"training {editor} on {count:,} examples -> {job.folder}"), soft_wrap=True)
        if job.step:
            console.print(literal(f"  resuming after step {job.step}, {job.seconds / 60:.1f} min"))
        with first_ctrl_c() as stopped:
            said = monotonic()
            for _step in train(job, minutes, stopped):
                if monotonic() - said >= NOTE_SECONDS:
                    said = monotonic()
                    console.print(literal(f"  {_note(job)}"), soft_wrap=True)
    if as_json:
        shared.print_json(
            {
                "editor": job.editor,
                "folder": str(job.folder),
                "steps": job.step,
                "seconds": job.seconds,
                "losses": job.losses,
            }
        )
    elif job.losses:
        out().print(_summary(job))
    if stopped():
        raise KeyboardInterrupt


@contextmanager
def first_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C finish the current step; a second one interrupts."""
    seen = threading.Event()

    def note(_number: int, _frame: object) -> None:
        if seen.is_set():
            raise KeyboardInterrupt
        seen.set()

    if threading.current_thread() is not threading.main_thread():
        yield seen.is_set
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """Return the means of ``width`` parts of ``values`` as bars. Empty without values."""
    means = _means(values, width)
    if not means:
        return ""
    low, high = min(means), max(means)
    step = (high - low) / (len(BARS) - 1) or 1.0
    return "".join(BARS[round((mean - low) / step)] for mean in means)


def _means(values: Sequence[float], count: int) -> list[float]:
    """Return the means of at most ``count`` parts of nearly equal length."""
    count = min(count, len(values))
    bounds = [len(values) * part // count for part in range(count + 1)] if count else []
    return [sum(values[low:high]) / (high - low) for low, high in pairwise(bounds)]


def _note(job: TrainJob) -> str:
    losses = [line["loss"] for line in job.losses]
    recent = _means(losses, ROWS)[-1]
    return f"step {job.step}, {job.seconds / 60:.1f} min: loss {recent:.3f}  {sparkline(losses, 30)}"


def _summary(job: TrainJob) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415  as in the report

    losses = [line["loss"] for line in job.losses]
    names = [name for name in job.losses[-1] if name not in ("step", "seconds")]
    table = plain_table("steps", *names)
    count = min(ROWS, len(losses))
    bounds = [len(losses) * part // count for part in range(count + 1)]
    columns = [_means([line[name] for line in job.losses], count) for name in names]
    for row, (low, high) in enumerate(pairwise(bounds)):
        steps = f"{int(job.losses[low]['step'])}-{int(job.losses[high - 1]['step'])}"
        table.add_row(literal(steps), *(literal(f"{column[row]:.4g}") for column in columns))
    return Group(
        titled(f"{job.editor}: {job.step} steps in {job.seconds / 60:.1f} min, means", table),
        literal(f"loss  {sparkline(losses)}  {max(losses):.3g} to {min(losses):.3g}"),
        literal(f"{job.folder}"),
    )
