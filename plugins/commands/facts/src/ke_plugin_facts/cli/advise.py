"""``ke advise``: which editor for a file of facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.app import (
    CallProgress,
    Model,
    completion,
    literal,
    plain_table,
    reject_unused,
    resolve_component,
    split_options,
)
from ke_core.app import options as shared
from ke_core.app import out as output
from ke_core.plugin import BadConfig, BadData, to_json
from ke_plugin_facts.cli.settings import model_of, options_of
from ke_plugin_facts.fact_file import read_facts

CANDIDATES = ("memit", "rag", "lora", "grace")


@click.command("advise")
@click.option(
    "--facts",
    type=click.Path(path_type=Path),
    default=Path("facts.toml"),
    show_default=True,
    metavar="FILE",
    help="File of facts.",
)
@click.option(
    "--candidate",
    "candidates",
    multiple=True,
    metavar="EDITOR",
    shell_complete=completion.component("editor"),
    help=f"Editor to try (repeatable). [default: those installed of {', '.join(CANDIDATES)}]",
)
@click.option("--sizes", default="", metavar="N,N,...", help="Numbers of facts to try. [default: all facts]")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Save each trial as a JSON line. Trials in the file are not repeated.",
)
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a chart over the number of facts.",
)
@shared.component_options
@shared.json_option
@shared.model_options
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    facts: Path,
    candidates: tuple[str, ...],
    sizes: str,
    out: Path | None,
    svg: Path | None,
    **given: Any,
) -> int:
    """Try several editors on a file of facts, and print what each costs and breaks.

    For each number of facts and each editor: the facts, paraphrases and consequences that are answered, the facts
    to keep that are lost, and the seconds per fact and per question. The row none is the unedited model. An editor's
    first trial includes what is prepared once, such as the key covariance, unless it is cached.

    \b
    Example: ke advise --facts facts.toml --candidate memit --candidate rag --sizes 5,20
    """  # fmt: skip
    file, catalog = read_facts(facts), context.obj.catalog
    from ke_plugin_facts.advising import Candidates, add_trial, chart, numbers, read_trials, trials  # noqa: PLC0415  torch

    tried = candidates or tuple(name for name in CANDIDATES if name in catalog.names("editor"))
    reject_unused(split_options(given["options"]), [catalog.spec("editor", name) for name in tried])
    if not file.facts:
        raise BadData(f"{facts} has no facts to try", hint="add facts: docs/facts-as-code.md shows the file")
    counts = numbers(sizes, len(file.facts))
    options = options_of(context.obj, file, given, *tried)
    editors = {name: resolve_component(catalog, "editor", name, options) for name in tried}
    known = read_trials(out) if out else {}
    for path in filter(None, (out, svg)):
        path.parent.mkdir(parents=True, exist_ok=True)
    if svg and len(set(counts)) == 1:
        raise BadConfig("--svg draws several numbers of facts, and there is one", hint="add --sizes 5,20")
    shown = CallProgress()
    with shown.shown():
        choice = model_of(context, file, given)
        model = Model(model=choice.load(catalog, shown), choice=choice, progress=shown)
        found = []
        wanted = Candidates(model=model, catalog=catalog, editors=editors, seed=int(file.settings.get("seed", 0)))
        for one in trials(wanted, file.facts, file.keep, counts, known=known):
            found.append(one)
            if out and one.key not in known:
                add_trial(out, one)
    if svg:
        svg.write_text(chart(found), encoding="utf-8")
    if given["as_json"]:
        shared.print_json(to_json(found))
        return 0
    table = plain_table(
        "facts", "editor", "answered", "paraphrases", "consequences", "forgetting", "s per fact", "s per question"
    )
    for one in found:
        rates = (_rate(value) for value in (one.efficacy, one.paraphrases, one.consequences, one.forgetting))
        seconds = (f"{one.seconds_per_fact:.2f}", f"{one.seconds_per_question:.3f}")
        table.add_row(*map(literal, (str(one.facts), one.editor, *rates, *seconds)))
    output().print(table)
    return 0


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
