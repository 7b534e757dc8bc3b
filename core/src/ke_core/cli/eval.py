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
@shared.section(
    "Method and data", shared.editors_option, shared.dataset_option,
    click.option("--limit", type=shared.COUNT, metavar="N", help="Sample N cases with the seed."),
    shared.data_dir, shared.component_options,
)  # fmt: skip
@shared.model_options
@shared.section(
    "Protocol",
    click.option("--protocol", type=click.Choice(["partition", "sample"]), default="partition", show_default=True,
                 help="partition: edit every case, in batches. sample: edit some cases, evaluate all."),
    click.option("--batch", "--edits-per-batch", "batch", type=CountOr("all"), metavar="N|all",
                 help="partition: cases per batch. [default: 1]"),
    click.option("--num-edited", type=shared.COUNT, metavar="K", help="sample: number of cases to edit."),
    click.option("--sequential", is_flag=True, help="Apply batches cumulatively, without restoring the weights."),
    click.option("--eval-every", type=CountOr("end"), metavar="N|end",
                 help="sequential: evaluate after every N batches. [default: end]"),
    click.option("--eval-set", type=click.Choice(["new", "seen", "all"]),
                 help="sequential: evaluate new cases, all edited so far, or all. [default: seen]"),
    click.option("--eval-limit", type=shared.COUNT, metavar="N", help="Evaluate only N of the selected cases."),
)  # fmt: skip
@shared.section(
    "Prompts and scoring",
    click.option("--style", "styles", multiple=True, metavar="NAME", help="Prompt style of the dataset (repeatable)."),
    click.option("--edited-form", type=click.Choice(["question", "cloze"]),
                 help="Form of the prompt that tests an edit. [default: the editor's]"),
    click.option("--prompts", default="", metavar="NAME", help="Prompts of the dataset: own, paper or a folder."),
    shared.judge_option, shared.metric_option,
)  # fmt: skip
@shared.section(
    "Run", shared.config_option, shared.seed_option,
    click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Run folder; with several editors, "
                 "the parent of the run folders. [default: runs/EDITOR-DATASET-ID]"),
    click.option("--processes", type=shared.COUNT, metavar="N",
                 help="Stop unless the launcher (torchrun, accelerate) started N processes."),
    click.option("--tp", type=click.Choice(["auto"]), help="Split the model over the processes of torchrun."),
    shared.full_option, shared.json_option,
)  # fmt: skip
@shared.price_options
@click.pass_obj
def command(
    app: App, /, *, editors: tuple[str, ...], dataset: str, data_dir: Path | None, as_json: bool, **given: Any
) -> int:
    """Evaluate editing methods on a benchmark.

    Several editors are compared on the same questions, each in its own run folder. The same command resumes an
    interrupted run.

    \b
    Examples:
      ke eval --editor memit --dataset atlas --limit 50
      ke eval --editor none --editor memit --dataset mquake-cf-3k --batch 100
      ke eval --editor memit --dataset atlas -o memit.layers=4,5,6
      ke eval --editor memit --dataset atlas --batch 10 --sequential
      ke eval --config memit.toml --limit 50
    """  # fmt: skip
    from ke_core.cli.running import eval_request, evaluate_editors  # noqa: PLC0415  the runner imports numpy
    from ke_core.runner.usage import Prices  # noqa: PLC0415  as above
    from ke_core.runner.world import expect  # noqa: PLC0415  only evaluations need it

    shared.require(app, "editor", editors)
    shared.require(app, "dataset", dataset)
    expect(given["processes"])
    request = eval_request(editors, dataset, data_dir, given)
    prices = Prices(prompt=given["price_in"], generated=given["price_out"])
    return evaluate_editors(
        app, editors, request, given["out"], prices, alone=len(editors) == 1, full=given["full"], as_json=as_json
    )
