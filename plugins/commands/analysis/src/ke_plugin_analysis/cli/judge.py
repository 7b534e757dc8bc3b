"""``ke judge RUN`` and ``ke score RUN``: judge the recorded replies again, and score them again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from ke_core.app import (
    RECORDS,
    App,
    BatchingEngine,
    Index,
    JudgeModel,
    OpenJudge,
    Prices,
    RecordedRun,
    RunFolder,
    completion,
    count_noun,
    dataset_judge,
    err,
    judge_run,
    key_of,
    literal,
    load_report,
    measures_of,
    model_choice,
    open_judge,
    print_report,
    progress,
    recorded_run,
    reject_unused,
    score_folder,
    score_run,
    spent_words,
    split_options,
    waiting_items,
)
from ke_core.app import options as shared
from ke_core.plugin import Item, Progress, Usage

rescoring_option = click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", shell_complete=completion.component("metric"),
    help="Metric (repeatable). [default: those of the judge, else those of the last scores]",
)  # fmt: skip
last_judge_option = click.option(
    "--judge", default="", metavar="NAME", help="Judge. [default: the last one that judged the run]",
    shell_complete=completion.component("judge"),
)  # fmt: skip
judge_model_options = shared.section(
    "Model of the judge",
    click.option("--judge-model", "model", default="", metavar="[SOURCE:]ID[@REVISION]",
                 shell_complete=completion.model, help="Model that the judge uses, in the form of --model."),
    shared.loading_options,
    shared.price_options,
)  # fmt: skip
"""``--judge-model``, the options for loading it, and the prices of its server."""


@click.command("judge")
@shared.run_argument
@shared.section(
    "Judge", shared.judge_option, rescoring_option, shared.component_options, shared.data_dir, shared.json_option,
)  # fmt: skip
@judge_model_options
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
    folder = RunFolder.open(run)
    where = str(data_dir) if data_dir else ""
    known = recorded_run(folder, app.catalog, where)
    chosen = dataset_judge(app.catalog, known.spec, judge, split_options(options))
    judge = chosen.spec.name
    measures = measures_of(folder, app.catalog, known.spec, metrics=metrics, judge=judge)  # a wrong one raises first
    reject_unused(split_options(options), [chosen.spec])
    with progress(err()) as shown:
        asking = judge_model(given, shown)
        opened = open_judge(chosen, app.catalog, asking)
        announce(folder, known, opened, asking)
        written = judge_run(folder, known.cases, opened, asking)
    err().print(f"{count_noun(written, 'line')} of judgments written" if written else "every answer was judged already")
    say_spent(opened, asking)
    with folder.writing():
        score_run(folder, known.cases, measures, judge=judge)
    print_report(app, [load_report(folder, app.catalog)], [folder.path], as_json=as_json, data_dir=where)


def judge_model(given: dict[str, Any], shown: Progress) -> Any:
    """Return the model of ``--judge-model``; None without it."""
    if not given["model"]:
        return None
    prices = Prices(prompt=given["price_in"], generated=given["price_out"])
    return JudgeModel(model=model_choice(given), progress=shown, prices=prices)


def announce(folder: RunFolder, known: RecordedRun, judge: OpenJudge, asking: JudgeModel | None) -> None:
    """Print what the judge will send to its model, if it has one."""
    if asking is not None:
        index = Index.of(folder.path / RECORDS)
        waiting = waiting_items(index, known.cases, key_of(judge.component), folder)
        say_estimate(judge, [item for _line, items in waiting for item in items.values()], asking.prices)


def say_estimate(judge: OpenJudge, items: Sequence[Item], prices: Prices) -> None:
    """Print what the judge will send to its model for ``items``."""
    from ke_plugin_analysis.estimating import estimate_words  # noqa: PLC0415  when a judge asks a model

    if items:
        err().print(literal(f"  to be sent: {estimate_words(judge, items, prices)}", "dim"), soft_wrap=True)


def say_spent(judge: OpenJudge, asking: JudgeModel | None) -> None:
    """Print the usage of the judge's server, or of its local model, if it requested anything."""
    if asking is None or judge.session is None:
        return
    where, spent, engine = "server", asking.spent, cast("BatchingEngine", judge.session.engine)
    if not spent and engine.requests:
        sent, prices = engine.sent, asking.prices
        local = Usage(
            requests=sent.calls, prompt_tokens=sent.prompt_tokens, tokens=sent.tokens,
            price_in=prices.prompt, price_out=prices.generated,
        )  # fmt: skip
        where, spent = "model", [local]
    if spent:
        err().print(literal(f"  sent to the {where}: {spent_words(spent)}", "dim"), soft_wrap=True)


@click.command("score")
@shared.run_argument
@rescoring_option
@last_judge_option
@shared.component_options
@shared.data_dir
@shared.json_option
@click.pass_obj
def score_command(
    app: App, *, run: Path, metrics: tuple[str, ...], judge: str, options: tuple[str, ...], data_dir: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Score a judged run again with other metrics.

    It reads the records of the run, loads no model, and replaces the scores.

    \b
    Example: ke score runs/memit-atlas-1a2b3c4d --metric multi-hop
    """  # fmt: skip
    folder, where = RunFolder.open(run), str(data_dir) if data_dir else ""
    score_folder(folder, app.catalog, metrics=metrics, judge=judge, options=split_options(options), data_dir=where)
    print_report(app, [load_report(folder, app.catalog)], [folder.path], as_json=as_json, data_dir=where)
