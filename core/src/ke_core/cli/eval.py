"""``ke eval``: the whole of an evaluation, for one editor or several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App


class BatchSize(click.ParamType[int | str]):
    """A number of cases, or ``all``."""

    name = "N|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """``all`` or a positive whole number."""
        if value == "all":
            return "all"
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{str(value)!r} is neither a number from 1 nor all", param, ctx)
        return int(value)


class EvaluateWhen(click.ParamType[int | str]):
    """``each``, ``every:N`` or ``end``."""

    name = "each|every:N|end"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Every how many batches, or ``end``."""
        if value in ("end", "each"):
            return 1 if value == "each" else "end"
        word, colon, count = str(value).partition(":")
        if word != "every" or not colon:
            self.fail(f"{value!r} is none of each, every:N and end", param, ctx)
        if not count.isdigit() or int(count) < 1:
            self.fail(f"{count!r} is no number of batches", param, ctx)
        return int(count)


@click.command("eval")
@click.option("--editor", "editors", multiple=True, metavar="NAME", help="The method (repeatable: side by side).")
@click.option("--dataset", default="", metavar="NAME", help="The benchmark, one (ke sweep runs several).")
@shared.model_options
@shared.component_options
@click.option(
    "--protocol",
    type=click.Choice(["partition", "sample"]),
    default="partition",
    show_default=True,
    help="Edit and ask every case in groups, or edit some and ask all.",
)
@click.option("--batch", type=BatchSize(), default=None, help="partition: cases edited together. [default: 1]")
@click.option("--sequential", is_flag=True, help="Edit batch upon batch, without giving the model back in between.")
@click.option(
    "--eval-every",
    type=EvaluateWhen(),
    default=None,
    help="sequential: when cases are asked, after each batch, every N batches, or at the end. [default: end]",
)
@click.option(
    "--eval-set",
    type=click.Choice(["new", "seen", "all"]),
    default=None,
    help="sequential: who is then asked: cases edited since the last time, all edited so far, all. [default: seen]",
)
@click.option(
    "--num-edited", type=click.IntRange(1), default=None, metavar="K", help="sample: how many cases are edited."
)
@click.option("--limit", type=click.IntRange(1), default=None, metavar="N", help="Take N cases, drawn with the seed.")
@click.option("--eval-limit", type=click.IntRange(1), default=None, metavar="N", help="Ask only N of the cases taken.")
@click.option("--style", "styles", multiple=True, metavar="NAME", help="How questions are put (repeatable).")
@click.option(
    "--edited-form",
    type=click.Choice(["question", "cloze"]),
    default=None,
    help="How the fact of an edit is asked. [default: the editor's own]",
)
@click.option("--prompts", default="", metavar="NAME", help="Which prompts of the dataset, e.g. published.")
@shared.data_dir
@click.option("--judge", default="", metavar="NAME", help="Who says what is right. [default: the dataset's]")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="What is computed. [default: the dataset's]")
@click.option("--processes", type=click.IntRange(1), default=None, metavar="N",
              help="Refuse to start unless the launcher (torchrun, accelerate) has started N processes.")  # fmt: skip
@shared.run_options
@click.pass_obj
def command(app: App, /, *, editors: tuple[str, ...], dataset: str, data_dir: Path | None, **given: Any) -> int:
    """Edit a model, ask it a benchmark's questions, score its answers.

    Several editors are compared on the same questions, each in a run folder of its own. A run that was
    interrupted goes on where it stopped when the same command is given again.

    \b
    Examples:
      ke eval --editor memit --dataset atlas --limit 50
      ke eval --editor none --editor memit --editor mello --dataset mquake-cf-3k --batch 100
      ke eval --editor memit --dataset atlas -o memit.layers=4,5,6 --model ./my-model
      ke eval --editor memit --dataset atlas --batch 10 --sequential --eval-every every:5
    """  # fmt: skip
    from ke_core.cli.running import EvalCommand, evaluate  # noqa: PLC0415  the runner imports numpy
    from ke_core.runner.world import expect  # noqa: PLC0415  light, but for evaluations alone

    shared.require(app, "editor", editors)
    shared.require(app, "dataset", dataset)
    expect(given["processes"])
    return evaluate(app, EvalCommand.of(editors, dataset, data_dir, given))
