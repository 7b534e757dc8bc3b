"""``ke eval``: evaluate one editor, or several on the same questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App


class CountOr(click.ParamType[int | str]):
    """A number from 1, or one word."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.name = f"N|{word}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the word or the number."""
        if value == self.word:
            return self.word
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{str(value)!r} is neither a number from 1 nor {self.word}", param, ctx)
        return int(value)


@click.command("eval")
@click.option("--editor", "editors", multiple=True, metavar="NAME", help="The method (repeatable).")
@click.option("--dataset", default="", metavar="NAME", help="The benchmark (ke sweep runs several).")
@shared.model_options
@shared.component_options
@click.option("--protocol", type=click.Choice(["partition", "sample"]), default="partition", show_default=True,
              help="Edit and ask every case in groups, or edit some cases and ask all.")  # fmt: skip
@click.option("--batch", "--edits-per-batch", "batch", type=CountOr("all"), default=None,
              help="partition: cases edited together. [default: 1]")  # fmt: skip
@click.option("--sequential", is_flag=True, help="Apply batches cumulatively, without restoring the weights.")
@click.option("--eval-every", type=CountOr("end"), default=None,
              help="sequential: ask after every N batches, or at the end. [default: end]")  # fmt: skip
@click.option("--eval-set", type=click.Choice(["new", "seen", "all"]), default=None,
              help="sequential: ask new cases, all edited so far, or all. [default: seen]")  # fmt: skip
@click.option("--num-edited", type=click.IntRange(1), default=None, metavar="K", help="sample: cases to edit.")
@click.option("--limit", type=click.IntRange(1), default=None, metavar="N", help="Sample N cases with the seed.")
@click.option("--eval-limit", type=click.IntRange(1), default=None, metavar="N", help="Ask only N of these cases.")
@click.option("--style", "styles", multiple=True, metavar="NAME", help="Prompt style of the dataset (repeatable).")
@click.option("--edited-form", type=click.Choice(["question", "cloze"]), default=None,
              help="How the fact of an edit is asked. [default: the editor's own]")  # fmt: skip
@click.option("--prompts", default="", metavar="NAME", help="Prompts of the dataset, such as published.")
@shared.data_dir
@click.option("--judge", default="", metavar="NAME", help="The judge. [default: the dataset's]")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="The metrics. [default: the dataset's]")
@click.option("--processes", type=click.IntRange(1), default=None, metavar="N",
              help="Stop unless the launcher (torchrun, accelerate) has started N processes.")  # fmt: skip
@shared.run_options
@shared.full_option
@click.pass_obj
def command(app: App, /, *, editors: tuple[str, ...], dataset: str, data_dir: Path | None, **given: Any) -> int:
    """Edit a model, ask it a benchmark's questions, score its answers.

    Several editors are compared on the same questions, each in its own run folder. If a run was interrupted, the same
    command resumes it.

    \b
    Examples:
      ke eval --editor memit --dataset atlas --limit 50
      ke eval --editor none --editor memit --editor mello --dataset mquake-cf-3k --batch 100
      ke eval --editor memit --dataset atlas -o memit.layers=4,5,6 --model ./my-model
      ke eval --editor memit --dataset atlas --batch 10 --sequential --eval-every 5
    """  # fmt: skip
    from ke_core.cli.running import eval_request, evaluate_editors  # noqa: PLC0415  the runner imports numpy
    from ke_core.runner.usage import Prices  # noqa: PLC0415  as above
    from ke_core.runner.world import expect  # noqa: PLC0415  only evaluations need it

    shared.require(app, "editor", editors)
    shared.require(app, "dataset", dataset)
    expect(given["processes"])
    request = eval_request(editors, dataset, data_dir, given)
    prices = Prices(prompt=given["price_in"], generated=given["price_out"])
    return evaluate_editors(app, editors, request, given["out"], prices, alone=len(editors) == 1, full=given["full"])
