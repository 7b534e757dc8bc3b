"""``ke judges``: which there are, and how far one agrees with labels written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.app import (
    App,
    agreement_warning,
    count_noun,
    err,
    judge_model,
    literal,
    one_line,
    open_judge,
    out,
    plain_table,
    progress,
    reject_unused,
    resolve_judge,
    save_check,
    say_spent,
    split_options,
)
from ke_core.app import options as shared
from ke_core.plugin import BadConfig, BadData, JudgeSpec

SHOWN, WIDE = 10, 60  # disagreements listed; characters of each


@click.group("judges")
def command() -> None:
    """List judges, and check one against labels written by hand.

    \b
    Example: ke judges check llm --judge-model smollm2-135m
    """


@command.command("list")
@click.pass_obj
def list_(app: App) -> None:
    """List the installed judges."""
    shared.require_some(app, "judge")
    table = plain_table("judge", "summary", "asks a model", "labels", "plugin")
    table.columns[0].no_wrap = True
    for name in app.catalog.names("judge"):
        offer = app.catalog.offer("judge", name)
        spec = _spec(offer.spec)
        labels = ", ".join(label for group in spec.labels.values() for label in group)
        row = (name, spec.summary, "yes" if spec.needs_model else "no", labels, offer.plugin.distribution)
        table.add_row(*(literal(text) for text in row))
    out().print(table)


@command.command("check")
@click.argument("name")
@click.option(
    "--items",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Items with labels written by hand, a JSON object a line. [default: those that come with the judge]",
)
@shared.component_options
@shared.judge_model_options
@click.pass_obj
def check_(app: App, /, *, name: str, items: Path | None, options: tuple[str, ...], **given: Any) -> None:
    """Compare a judge with labels written by hand: Cohen's kappa, with a 95 % interval.

    At least 50 items. What was found stands in the report of every run that this judge, with these options and this
    model, has judged; where kappa is below 0.6, as a warning.

    \b
    Examples:
      ke judges check llm --judge-model smollm2-135m
      ke judges check alias --items labeled.jsonl -o alias.match=contains
    """
    from ke_plugin_analysis.checking import check, read_items  # noqa: PLC0415  as above

    chosen = resolve_judge(app.catalog, name, split_options(options))
    reject_unused(split_options(options), [chosen.spec])
    text, of = _items(chosen.spec, items)
    labeled = read_items(chosen.spec, text, of=of)
    with progress(err()) as shown:
        asking = judge_model(given, shown)
        opened = open_judge(chosen, app.catalog, asking)
        found = check(chosen, opened, labeled)
    save_check(found.check)
    if opened.session is not None:
        asking.since_last(opened.session.model)
    say_spent(asking)
    table = plain_table("labels", "items", "agreed", "Cohen's kappa", "95 % interval")
    for group, agreement in found.check.agreements.items():
        between = agreement.interval
        kappa = "undefined" if agreement.kappa is None else f"{agreement.kappa:.2f}"
        interval = f"{between.low:.2f} to {between.high:.2f}" if between else "none"
        table.add_row(*map(literal, (group, f"{agreement.n}", f"{agreement.agreed}", kappa, interval)))
    out().print(table)
    _disagreements(found.disagreements)
    if warned := agreement_warning(opened.component):
        err().print(literal(f"warning: {warned}", "bold red"), soft_wrap=True)
    err().print(literal(f"kept for reports: {count_noun(len(found.compared), 'item')} of {of}"), soft_wrap=True)


def _disagreements(differing: Any) -> None:
    if not differing:
        return
    table = plain_table("item", "by hand", "by the judge", "because")
    for one in differing[:SHOWN]:
        what = one.item.thoughts or one.item.answer or one.item.question
        row = (one_line(what, WIDE), one.item.label, one.found, one_line(one.note, WIDE))
        table.add_row(*(literal(text) for text in row))
    out().print(table)
    if len(differing) > SHOWN:
        out().print(literal(f"and {len(differing) - SHOWN} more"))


def _items(spec: JudgeSpec, path: Path | None) -> tuple[str, str]:
    """The text of the items, and what it is called."""
    if path is None and spec.items is None:
        raise BadConfig(f"judge {spec.name} comes without labeled items", hint="say --items FILE")
    if path is None:
        assert spec.items is not None
        return spec.items(), f"the items of {spec.name}"
    try:
        return path.read_text(encoding="utf-8-sig"), str(path)
    except UnicodeDecodeError as wrong:
        raise BadData(f"{path} is not UTF-8: {wrong.reason}", hint="save it as UTF-8") from wrong


def _spec(spec: Any) -> JudgeSpec:
    assert isinstance(spec, JudgeSpec)
    return spec
