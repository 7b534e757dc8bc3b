"""``ke edit``: edit facts in a model, and save the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ke_core.app import (
    DONE,
    FAILED,
    App,
    CallProgress,
    completion,
    count_noun,
    err,
    literal,
    model_choice,
    out,
    read_edits,
    split_options,
)
from ke_core.app import options as shared
from ke_weights.bounds import bounds, needed
from ke_weights.cli.bounds import least_option, most_option
from ke_weights.editor_choice import choose_editor, weight_editors
from ke_weights.save_targets import SaveTargets
from ke_weights.sentences import edit_from_sentence
from ke_weights.suites import edit_checks, open_suite

if TYPE_CHECKING:
    from ke_core.app import ModelChoice
    from ke_core.plugin import Progress, SourcedEdit
    from ke_weights.push import Pushed


@click.command("edit")
@click.argument("sentence", default="")
@shared.section(
    "Edits",
    click.option("--subject", default="", metavar="NAME", help="Subject of the sentence, spelled as in the sentence."),
    click.option("--object", "object_", default="", metavar="NAME",
                 help="New object: the end of the sentence. [default: the last word, and capitalized words right "
                 "before it]"),
    click.option("--edits", type=click.Path(path_type=Path), metavar="FILE",
                 help="Edits in JSON lines or CSV: prompt, subject, target_new; optional target_old, source, date, "
                 "paraphrases, question, id."),
)  # fmt: skip
@shared.section(
    "Method",
    click.option("--editor", default="", metavar="NAME", shell_complete=completion.component("editor"),
                 help="Editing method. [default: memit, or another installed weight editor]"),
    shared.component_options,
    shared.seed_option,
)  # fmt: skip
@shared.model_options
@shared.section(
    "Output",
    click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER",
                 help="Save the edited model here, or the state of an adaptor."),
    click.option("--format", "format_", type=click.Choice(["merged", "peft"]), default="merged", show_default=True,
                 help="Format of --out: a checkpoint (merged) or a LoRA adapter (peft)."),
    click.option("--patch", type=click.Path(path_type=Path), metavar="FILE", help="Save only the weight updates here."),
    click.option("--force", is_flag=True, help="Replace an existing model, adapter or file."),
    shared.json_option,
)  # fmt: skip
@shared.section(
    "Running server",
    click.option("--push", default="", metavar="URL",
                 help="Load the adapter into the vLLM server at this address, ask the facts there, and unload it if "
                 "the check fails."),
    click.option("--suite", type=click.Path(path_type=Path), metavar="FILE",
                 help="Facts to ask after --push, as in `ke verify`. [default: the edits]"),
    least_option,
    most_option,
)  # fmt: skip
@click.pass_obj
def command(app: App, /, *, sentence: str, subject: str, object_: str, edits: Path | None, **given: Any) -> int:
    """Edit facts in a model and save the model or a patch.

    It prints the answers of the model before and after the edits. Without --out and --patch, it saves nothing.

    \b
    Examples:
      ke edit "The capital of Peru is Cusco" --subject Peru
      ke edit "The capital of Peru is => La Paz" --subject Peru --patch peru.safetensors
      ke edit --edits facts.jsonl --editor memit --out ./edited
      ke edit --edits facts.jsonl --editor memit --format peft --out ./adapter
      ke edit --edits facts.jsonl --editor memit --format peft --out ./facts --push http://127.0.0.1:8000
    """  # fmt: skip
    facts = _facts(sentence, subject, object_, edits)
    _refuse_useless(given)
    targets = SaveTargets(out=given["out"], format=given["format_"], patch=given["patch"], force=given["force"])
    model = model_choice(given)
    targets.check(model)
    editor = given["editor"] or next(iter(weight_editors(app.catalog)), "")
    shared.require(app, "editor", editor)
    _refuse_weight_options(app, editor, given)
    chosen = choose_editor(editor, split_options(given["options"]), app.catalog)
    from ke_weights.editing import make_adaptor_edit, make_edit, prepare_edit  # noqa: PLC0415  torch
    from ke_weights.report.edits import edit_json, edit_report  # noqa: PLC0415  as above
    from ke_weights.report.push import push_json, push_report  # noqa: PLC0415  as above
    from ke_weights.saving import write_edit  # noqa: PLC0415  as above

    written, console, shown, pushed = list[str](), err(), CallProgress(), None
    with shown.shown():
        push = _push(app, facts, model, given, shown)
        work = prepare_edit(chosen, model, facts, app.catalog, shown, seed=given["seed"])
        what = f"{count_noun(len(facts), 'edit')} by {editor} in {work.loaded.model.id}"
        console.print(literal(what), soft_wrap=True)
        if work.adaptor:
            made = make_adaptor_edit(work, lambda folder: written.extend(targets.write_adaptor(folder)))
        else:
            made = make_edit(work, lambda *edit: written.extend(write_edit(targets, work.loaded, *edit)))
        pushed = push and push()
    if given["as_json"]:
        shared.print_json(edit_json(made, written) | ({"push": push_json(pushed)} if pushed else {}))
    else:
        out().print(edit_report(made, written), *([push_report(pushed)] if pushed else ()))
        if pushed and pushed.reasons:
            kept = f"the adapter in {given['out']} is kept; use another folder name for the next try"
            out().print(
                literal(f"{kept}: the prefix cache of vLLM distinguishes adapters by name only"), soft_wrap=True
            )
    return FAILED if pushed and pushed.reasons else DONE


def _refuse_useless(given: dict[str, Any]) -> None:
    """Raise UsageError for options without effect, and BadConfig for bounds that are wrong."""
    if given["out"] is None and given["format_"] != "merged":
        raise click.UsageError("--format peft needs --out FOLDER")
    if given["push"] and given["format_"] != "peft":
        raise click.UsageError("--push loads a LoRA adapter: add --format peft --out FOLDER")
    named = {"--suite": given["suite"], "--min": given["least"], "--max": given["most"]}
    for option in (option for option, value in named.items() if value and not given["push"]):
        raise click.UsageError(f"{option} is for --push URL; without it, use ke verify")
    bounds(given["least"], given["most"])


def _push(
    app: App, facts: Sequence[SourcedEdit], model: ModelChoice, given: dict[str, Any], shown: Progress
) -> Callable[[], Pushed] | None:
    """Return what pushes the written adapter, or None without --push. The server and the suite are checked first."""
    if not given["push"]:
        return None
    from ke_weights.push import EFFICACY, open_server, push_adapter  # noqa: PLC0415  torch

    own = tuple(one for fact in facts for one in edit_checks(fact))
    suite = open_suite(given["suite"], app.plugins) if given["suite"] else own
    wanted = bounds(given["least"], given["most"]) or (EFFICACY,)
    needed(wanted, suite)
    if any(bound.metric == "preference" for bound in wanted):
        raise click.UsageError("preference needs log-probabilities, which --push does not request: use ke verify")
    server = open_server(given["push"], given["out"].resolve().name, model.how, app.catalog, shown)
    return lambda: push_adapter(server, given["out"], suite, wanted)


def _facts(sentence: str, subject: str, object_: str, file: Path | None) -> tuple[SourcedEdit, ...]:
    """Return the edits of the file or the sentence. Raises UsageError."""
    if file is not None:
        if sentence or subject or object_:
            raise click.UsageError("edits come from --edits FILE or from a sentence, not from both")
        return read_edits(file)
    if not sentence.strip():
        raise click.UsageError("no edit is given: add --edits FILE, or a sentence with --subject NAME")
    if not subject.strip():
        raise click.UsageError("the sentence has no subject: add --subject NAME, spelled as in the sentence")
    return (edit_from_sentence(sentence, subject.strip(), object_.strip()),)


def _refuse_weight_options(app: App, editor: str, given: dict[str, Any]) -> None:
    """Raise UsageError for options of weight editors, if ``editor`` is an adaptor."""
    spec = app.catalog.spec("editor", editor)
    if not getattr(spec, "adaptor", False):
        return
    named = {"--patch": given["patch"], "--format peft": given["format_"] == "peft"}
    for option in (option for option, value in named.items() if value):
        raise click.UsageError(f"{option} saves weight updates, but {editor} is an adaptor: use --out FOLDER only")
