"""``ke judges``: list judges, and check one against human labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.app import (
    App,
    agreement_warning,
    completion,
    count_noun,
    err,
    literal,
    one_line,
    open_judge,
    out,
    plain_table,
    progress,
    reject_unused,
    resolve_component,
    save_check,
    split_options,
)
from ke_core.app import options as shared
from ke_core.plugin import BadConfig, BadData, JudgeSpec, to_json
from ke_plugin_analysis.cli.judge import judge_model, judge_model_options, say_estimate, say_spent

SHOWN, WIDE = 10, 60  # disagreements listed; characters of each


@click.group("judges")
def command() -> None:
    """List judges, and check one against human labels.

    \b
    Example: ke judges check llm --judge-model smollm2-135m
    """


@command.command("list")
@shared.json_option
@click.pass_obj
def list_(app: App, *, as_json: bool) -> None:
    """List the installed judges.

    \b
    Example: ke judges list
    """
    if not as_json:
        shared.require_some(app, "judge")
    registrations = [app.catalog.registration("judge", name) for name in app.catalog.names("judge")]
    rows = [
        {
            "judge": registration.spec.name,
            "summary": registration.spec.summary,
            "needs_model": _spec(registration.spec).needs_model,
            "labels": [label for group in _spec(registration.spec).labels.values() for label in group],
            "plugin": registration.plugin.distribution,
        }
        for registration in registrations
    ]
    shared.print_rows(rows, as_json=as_json)


@command.command("check")
@click.argument("name", metavar="JUDGE", shell_complete=completion.component("judge"))
@click.option("--items", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Labeled items, one JSON object per line. [default: those of the judge]")  # fmt: skip
@shared.component_options
@shared.json_option
@judge_model_options
@click.pass_obj
def check_(
    app: App, /, *, name: str, items: Path | None, options: tuple[str, ...], as_json: bool, **given: Any
) -> None:
    """Compare a judge with human labels: Cohen's kappa with a 95% interval.

    It needs at least 50 items. Reports of runs that this judge judged, with these options and this model, print the
    result, and a warning if kappa is below 0.6.

    \b
    Examples:
      ke judges check llm --judge-model smollm2-135m
      ke judges check alias --items labeled.jsonl -o alias.match=contains
    """
    from ke_plugin_analysis.checking import check, inputs, read_items  # noqa: PLC0415  numpy

    chosen = resolve_component(app.catalog, "judge", name, split_options(options))
    reject_unused(split_options(options), [chosen.spec])
    text, of = _items(chosen.spec, items)
    labeled = read_items(chosen.spec, text, of=of)
    with progress(err()) as shown:
        asking = judge_model(given, shown)
        opened = open_judge(chosen, app.catalog, asking)
        if asking is not None:
            say_estimate(opened, inputs(labeled), asking.prices)
        found = check(chosen, opened, labeled)
    save_check(found.check)
    if opened.session is not None:
        asking.since_last(opened.session.model)
    say_spent(opened, asking)
    if as_json:
        differing = [{"item": to_json(one.item), "found": one.found, "note": one.note} for one in found.disagreements]
        shared.print_json({**to_json(found.check), "disagreements": differing})
        return
    table = plain_table("labels", "items", "agreed", "Cohen's kappa", "95% interval")
    for group, agreement in found.check.agreements.items():
        between = agreement.interval
        kappa = "undefined" if agreement.kappa is None else f"{agreement.kappa:.2f}"
        interval = f"{between.low:.2f} to {between.high:.2f}" if between else "none"
        table.add_row(*map(literal, (group, f"{agreement.n}", f"{agreement.agreed}", kappa, interval)))
    out().print(table)
    _disagreements(found.disagreements)
    if warned := agreement_warning(opened.component):
        err().print(literal(f"warning: {warned}", "bold red"), soft_wrap=True)
    err().print(literal(f"saved for reports: {count_noun(len(found.compared), 'item')} of {of}"), soft_wrap=True)


def _disagreements(differing: Any) -> None:
    if not differing:
        return
    table = plain_table("item", "human label", "judge", "reason")
    for one in differing[:SHOWN]:
        what = one.item.thoughts or one.item.answer or one.item.question
        row = (one_line(what, WIDE), one.item.label, one.found, one_line(one.note, WIDE))
        table.add_row(*(literal(text) for text in row))
    out().print(table)
    if len(differing) > SHOWN:
        out().print(literal(f"and {len(differing) - SHOWN} more"))


def _items(spec: JudgeSpec, path: Path | None) -> tuple[str, str]:
    """Return the text of the items, and their name."""
    if path is None and spec.items is None:
        raise BadConfig(f"judge {spec.name} has no labeled items", hint="add --items FILE")
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
