"""``ke judge RUN``: judge the recorded replies again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.cli.report import print_report


@click.command("judge")
@shared.run_argument
@click.option("--judge", "name", default="", metavar="NAME", help="The judge. [default: the dataset's]")
@shared.component_options
@click.option("--metric", "metrics", multiple=True, metavar="NAME",
              help="What is computed then. [default: the metrics of that judge, else the dataset's]")  # fmt: skip
@shared.data_dir
@shared.judge_model_options
@click.pass_obj
def command(
    app: App, /, *, run: Path, name: str, options: tuple[str, ...], metrics: tuple[str, ...],
    data_dir: Path | None, **given: Any,
) -> None:  # fmt: skip
    """Judge the replies of a finished run again, with another judge, and score them.

    The edited model is not needed, because replies are recorded. Earlier judgments are kept; the last ones count. A
    judge that asks a model needs --judge-model. If it was interrupted, the same command resumes it.

    \b
    Examples:
      ke judge runs/memit-atlas-1a2b3c4d --judge alias -o alias.match=contains
      ke judge runs/memit-recoe-1a2b3c4d --judge llm --judge-model smollm2-135m
    """  # fmt: skip
    from ke_core.cli.console import err, progress  # noqa: PLC0415  the runner imports numpy
    from ke_core.plugins.options import split_options  # noqa: PLC0415
    from ke_core.results.folder import RunFolder  # noqa: PLC0415
    from ke_core.results.formatting import count_noun  # noqa: PLC0415
    from ke_core.runner.evaluate import judge_folder, load_report, score_folder  # noqa: PLC0415
    from ke_core.runner.recorded import recorded_run  # noqa: PLC0415
    from ke_core.runner.scoring import measures_of  # noqa: PLC0415

    folder = RunFolder.open(run)
    known = recorded_run(folder, app.catalog, str(data_dir) if data_dir else "")
    measures_of(folder, app.catalog, known.spec, metrics=metrics, judge=name)  # one that is missing is told of now
    with progress(err()) as shown:
        asking = judge_model(given, shown)
        written = judge_folder(
            folder, app.catalog, name=name, options=split_options(options), asking=asking, known=known
        )
    err().print(f"{count_noun(written, 'line')} of judgments written")
    say_spent(asking)
    score_folder(folder, app.catalog, judge=name, metrics=metrics, known=known)
    print_report(app, [load_report(folder, app.catalog)], [folder.path])


def judge_model(given: dict[str, Any], shown: Any) -> Any:
    """What ``--judge-model`` says; None without it."""
    from ke_core.cli.running import model_choice  # noqa: PLC0415  the runner imports numpy
    from ke_core.runner.judging import JudgeModel  # noqa: PLC0415  as above
    from ke_core.runner.usage import Prices  # noqa: PLC0415  as above

    if not given["model"]:
        return None
    prices = Prices(prompt=given["price_in"], generated=given["price_out"])
    return JudgeModel(model=model_choice(given), progress=shown, prices=prices)


def say_spent(asking: Any) -> None:
    """What the judge's server was asked, in the words of ``ke eval``; nothing where nothing was."""
    from ke_core.cli.console import err  # noqa: PLC0415  as above
    from ke_core.results.footer import spent_words  # noqa: PLC0415  as above
    from ke_core.results.formatting import literal  # noqa: PLC0415  as above

    if asking is not None and asking.spent:
        err().print(literal(f"  asked of the server now: {spent_words(asking.spent)}", "dim"), soft_wrap=True)
