"""``ke judge RUN``: judge the recorded replies again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.cli import completion
from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.cli.report import print_report


@click.command("judge")
@shared.run_argument
@shared.section(
    "Judge", shared.judge_option,
    click.option("--metric", "metrics", multiple=True, metavar="NAME", shell_complete=completion.component("metric"),
                 help="Metric (repeatable). [default: those of the judge, else the dataset's]"),
    shared.component_options, shared.data_dir, shared.json_option,
)  # fmt: skip
@shared.judge_model_options
@click.pass_obj
def command(
    app: App, /, *, run: Path, judge: str, options: tuple[str, ...], metrics: tuple[str, ...],
    data_dir: Path | None, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Judge the answers of a run again with another judge.

    The command then scores the run. It does not load the edited model, because the answers are recorded. It keeps
    earlier judgments; the last ones count. A judge that uses a model needs --judge-model. The same command resumes
    interrupted judging.

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
    measures_of(folder, app.catalog, known.spec, metrics=metrics, judge=judge)  # report a missing one before judging
    with progress(err()) as shown:
        asking = judge_model(given, shown)
        written = judge_folder(
            folder, app.catalog, name=judge, options=split_options(options), asking=asking, known=known
        )
    err().print(f"{count_noun(written, 'line')} of judgments written")
    say_spent(asking)
    score_folder(folder, app.catalog, judge=judge, metrics=metrics, known=known)
    print_report(app, [load_report(folder, app.catalog)], [folder.path], as_json=as_json)


def judge_model(given: dict[str, Any], shown: Any) -> Any:
    """Return the model of ``--judge-model``; None without it."""
    from ke_core.cli.running import model_choice  # noqa: PLC0415  the runner imports numpy
    from ke_core.runner.judging import JudgeModel  # noqa: PLC0415  as above
    from ke_core.runner.usage import Prices  # noqa: PLC0415  as above

    if not given["model"]:
        return None
    prices = Prices(prompt=given["price_in"], generated=given["price_out"])
    return JudgeModel(model=model_choice(given), progress=shown, prices=prices)


def say_spent(asking: Any) -> None:
    """Print the usage of the judge's server, if there was any."""
    from ke_core.cli.console import err  # noqa: PLC0415  as above
    from ke_core.results.footer import spent_words  # noqa: PLC0415  as above
    from ke_core.results.formatting import literal  # noqa: PLC0415  as above

    if asking is not None and asking.spent:
        err().print(literal(f"  asked of the server now: {spent_words(asking.spent)}", "dim"), soft_wrap=True)
