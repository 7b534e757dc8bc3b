"""``ke edit``: change what a model holds true, and keep it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ke_core.app import (
    App,
    count_noun,
    edit_from_sentence,
    err,
    literal,
    model_choice,
    out,
    progress,
    read_edits,
    split_options,
)
from ke_core.app import options as shared

if TYPE_CHECKING:
    from ke_core.plugin import SourcedEdit


@click.command("edit")
@click.argument("sentence", default="")
@click.option("--subject", default="", metavar="NAME", help="Whom or what the sentence is about, as it stands there.")
@click.option(
    "--object",
    "object_",
    default="",
    metavar="NAME",
    help="The end of the sentence that is the new object. [default: its last word, with the capitalized "
    "words right before it]",
)
@click.option(
    "--edits",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Edits in JSON lines or CSV: prompt, subject, target_new; optional target_old, source, date, "
    "paraphrases, question, id.",
)
@click.option(
    "--editor",
    default="",
    metavar="NAME",
    help="The method. [default: the first weight editor of `ke plugins search --kind editor` that is installed]",
)
@shared.model_options
@shared.component_options
@click.option("--seed", default=0, show_default=True, help="Draws what a method samples.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write the edited model here; of an adaptor, its state.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["merged", "peft"]),
    default="merged",
    show_default=True,
    help="A whole checkpoint, or a LoRA adapter.",
)
@click.option("--every-layer", is_flag=True, help="peft: zeros in the layers that are not edited, as TGI needs them.")
@click.option("--patch", type=click.Path(path_type=Path), metavar="FILE", help="Write the weight updates alone here.")
@click.option("--force", is_flag=True, help="Replace what is there already, if it is a model, an adapter or a file.")
@shared.json_option
@click.pass_obj
def command(app: App, /, *, sentence: str, subject: str, object_: str, edits: Path | None, **given: Any) -> None:
    """Edit facts in a model, show its answers before and after, and write the edited model or a patch.

    \b
    Examples:
      ke edit "The mother tongue of Danielle Darrieux is English" --subject "Danielle Darrieux"
      ke edit "The capital of Peru is => La Paz" --subject Peru --patch peru.safetensors
      ke edit --edits facts.jsonl --editor memit --out ./edited
      ke edit --edits facts.jsonl --editor memit --format peft --out ./adapter
    """  # fmt: skip
    from ke_weights.adaptor_edits import make_adaptor  # noqa: PLC0415
    from ke_weights.editing import EditRequest, make_edit, prepare_edit, weight_editors  # noqa: PLC0415
    from ke_weights.report.edits import edit_json, edit_report  # noqa: PLC0415
    from ke_weights.saving import SaveTargets  # noqa: PLC0415

    facts = _facts(sentence, subject, object_, edits)
    model = model_choice(given)
    keep = SaveTargets(
        out=given["out"],
        format=given["format_"],
        patch=given["patch"],
        force=given["force"],
        every_layer=given["every_layer"],
    )
    _fitting(keep.out, given)
    keep.check(model)
    editor = given["editor"] or next(iter(weight_editors(app.catalog)), "")
    shared.require(app, "editor", editor)
    _fitting_adaptor(app, editor, given)
    request = EditRequest(
        editor=editor, model=model, edits=facts, options=split_options(given["options"]), seed=given["seed"]
    )
    written: list[str] = []
    console = err()
    with progress(console) as shown:
        work = prepare_edit(request, app.catalog, shown)
        what = f"{count_noun(len(facts), 'edit')} by {editor} in {work.loaded.session.model.id}"
        console.print(literal(what), soft_wrap=True)
        if work.adaptor:
            made = make_adaptor(work, lambda _saved, folder: written.extend(keep.write_adaptor(folder)))
        else:
            made = make_edit(work, lambda patch, base: written.extend(keep.write(work.loaded, patch, base)))
    if given["as_json"]:
        shared.print_json(edit_json(made, written))
    else:
        out().print(edit_report(made, written))


def _facts(sentence: str, subject: str, object_: str, file: Path | None) -> tuple[SourcedEdit, ...]:
    """The edits asked for, one way or the other."""
    if file is not None:
        if sentence or subject or object_:
            raise click.UsageError("edits come from --edits FILE or from a sentence, not from both")
        return read_edits(file)
    if not sentence.strip():
        raise click.UsageError("which edit? say --edits FILE, or a sentence with --subject NAME")
    if not subject.strip():
        raise click.UsageError("whom is the sentence about? say --subject NAME, as it stands in the sentence")
    return (edit_from_sentence(sentence, subject.strip(), object_.strip()),)


def _fitting(out: Path | None, given: dict[str, Any]) -> None:
    """Raise UsageError for options that would change nothing, in silence."""
    if out is None and given["format_"] != "merged":
        raise click.UsageError("--format peft needs --out FOLDER")
    if given["every_layer"] and given["format_"] != "peft":
        raise click.UsageError("--every-layer belongs to --format peft")


def _fitting_adaptor(app: App, editor: str, given: dict[str, Any]) -> None:
    """Raise UsageError for options of weight editors, if ``editor`` is an adaptor."""
    spec = app.catalog.spec("editor", editor)
    if not getattr(spec, "adaptor", False):
        return
    named = {"--patch": given["patch"], "--format peft": given["format_"] == "peft"}
    for option in (option for option, value in named.items() if value):
        raise click.UsageError(f"{option} holds updates of weights, and {editor} is an adaptor: say --out FOLDER alone")
