"""``ke verify``: check an edited model against a suite of facts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ke_core.app import DONE, FAILED, err, out, progress
from ke_core.app import options as shared
from ke_core.plugin import write_atomic
from ke_weights.bounds import bounds, needed
from ke_weights.cli.bounds import least_option, most_option
from ke_weights.patches.header import read_header
from ke_weights.saved_edits import is_saved_edit, read_saved_edit, recorded_model_choice
from ke_weights.suites import open_suite

if TYPE_CHECKING:
    from ke_core.plugin import Progress
    from ke_weights.verify import Answers


@click.command("verify")
@click.argument("patch", type=click.Path(path_type=Path), metavar="PATCH")
@shared.section(
    "Checks",
    click.option("--suite", type=click.Path(path_type=Path), required=True, metavar="FILE",
                 help='JSON lines: {"kind": "changed"|"paraphrase"|"consequence"|"kept", "prompt": ..., '
                 '"expect": ..., "not": ...}. Also an edit file, or the file of facts of `ke apply`.'),
    least_option,
    most_option,
    shared.json_option,
    click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Write the result as JUnit XML, for continuous integration."),
    click.option("--markdown", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Write the result as Markdown tables, for a comment."),
)  # fmt: skip
@shared.model_options
@click.pass_context
def command(
    context: click.Context, /, *, patch: Path, suite: Path, least: tuple[str, ...], most: tuple[str, ...], **given: Any
) -> int:
    """Check an edited model against a suite of facts.

    PATCH is a file from `ke edit --patch`, or the folder of an adaptor from `ke edit --out`. If --model is a folder
    with PATCH applied, the command checks that model, and compares it with the model without PATCH. The exit status
    is 1 if a bound is missed.

    \b
    Metrics (rates from 0 to 1):
      efficacy    changed facts that are answered as expected
      paraphrase  paraphrases that are answered as expected
      consequence consequences of changed facts that are answered as expected
      kept        kept facts that are answered as expected (without "expect": as before)
      forgetting  kept facts that the unedited model answers correctly, and the edited one does not
      preference  changed facts, paraphrases and consequences with "not" for which "expect" is more probable
    \b
    Example: ke verify facts.safetensors --suite suite.jsonl --min efficacy=0.95 --max forgetting=0.02
    """  # fmt: skip
    wanted, checks = bounds(least, most), open_suite(suite, context.obj.plugins)
    needed(wanted, checks)
    if not is_saved_edit(patch):
        read_header(patch)
    from ke_weights.report.edits import verify_json, verify_report  # noqa: PLC0415  torch
    from ke_weights.report.verify_files import junit, markdown  # noqa: PLC0415  torch
    from ke_weights.verify import verify  # noqa: PLC0415  torch

    with progress(err()) as shown:
        found = verify(_answers(context, patch, given, shown), checks, wanted)
    for option, render in (("junit", junit), ("markdown", markdown)):
        if given[option]:
            write_atomic(given[option], render(found, wanted).encode())
    if given["as_json"]:
        shared.print_json(verify_json(found))
    else:
        out().print(verify_report(found, wanted))
    return FAILED if found.missed else DONE


def _answers(context: click.Context, path: Path, given: dict[str, Any], shown: Progress) -> Answers:
    """Return the function that gets the answers of both models, for a patch or a saved adaptor."""
    from ke_weights.editing import open_model_for_edits  # noqa: PLC0415  torch
    from ke_weights.patches.format import read_patch  # noqa: PLC0415  torch
    from ke_weights.verify import adaptor_answers, patch_answers  # noqa: PLC0415

    catalog = context.obj.catalog
    if is_saved_edit(path):
        saved = read_saved_edit(path)
        choice = recorded_model_choice(context, given, saved.model, folder=saved.folder)
        session = open_model_for_edits(choice, catalog, shown).session
        return partial(adaptor_answers, session, path, saved, catalog)
    stored = read_patch(path)
    base = stored.info.base
    choice = recorded_model_choice(context, given, base.model, folder=base.folder)
    loaded = open_model_for_edits(choice, catalog, shown)
    return partial(patch_answers, loaded.session, stored, loaded.past)
