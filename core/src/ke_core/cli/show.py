"""``ke show NAME``: describe one component."""

from __future__ import annotations

from functools import cache
from typing import Any

import click
from rich.console import Group, RenderableType

from ke_core.cli import completion
from ke_core.cli.app import App
from ke_core.cli.console import err, out, progress
from ke_core.cli.options import component_options, json_option, print_json
from ke_core.engine.models import find_model
from ke_core.plugins.catalog import KINDS, Registration
from ke_core.plugins.options import describe, option_path, reject_unused, split_options
from ke_core.results.formatting import literal, plain_table, titled
from ke_core.runner.prepare import refuse_weightless
from ke_core.runner.resolve import Options, resolve_component
from ke_core.runner.session import ModelChoice, open_session
from ke_core.spec.codec import to_json
from ke_core.spec.component import Spec
from ke_core.spec.errors import BadConfig, KEError
from ke_core.spec.protocols import Editor, Progress, Session
from ke_core.spec.settings import ModelFacts, Settings
from ke_core.spec.specs import DatasetSpec, EditorSpec, JudgeSpec, MetricSpec, ModelSpec


@click.command("show")
@click.argument("words", nargs=-1, required=True, metavar="[KIND] NAME", shell_complete=completion.component(*KINDS))
@click.option("--model", default="", metavar="[SOURCE:]ID[@REVISION]", shell_complete=completion.model,
              help="Print an editor's hyperparameters for this model, with the reasons.")  # fmt: skip
@component_options
@json_option
@click.pass_obj
def command(app: App, words: tuple[str, ...], model: str, options: tuple[str, ...], *, as_json: bool) -> None:
    """Describe a component: its options, citation and origin.

    KIND is needed only if components of several kinds have the same name: editor, dataset, metric, judge, model or
    encoder.

    \b
    Examples:
      ke show memit
      ke show dataset mquake
      ke show memit --model smollm2-135m -o memit.layers=4,5,6
    """
    if len(words) > 2:
        raise click.UsageError(f"unexpected argument {words[2]!r}")
    kind, name = words if len(words) == 2 else (app.catalog.kind_of(words[0]), words[0])
    if kind not in KINDS:
        raise click.UsageError(f"{kind!r} is not one of {', '.join(map(repr, KINDS))}")
    if model and kind != "editor":
        raise click.UsageError(f"--model is for editors, but {name} is a {kind}")
    if options and not model:
        raise click.UsageError("-o sets options of an editor for --model MODEL")
    registration = app.catalog.registration(kind, name)
    if model:
        with progress(err()) as shown:
            settings, refusal = _hyperparameters(app, name, ModelChoice(reference=model), split_options(options), shown)
        if as_json:
            values = {"hyperparameters": to_json(settings), "error": refusal and refusal.message}
            print_json({"editor": name, "model": model, **values})
        else:
            out().print(_settings_page(f"{name} on {model}", settings, refusal))
    elif as_json:
        spec, plugin = registration.spec, registration.plugin
        about: dict[str, Any] = {"kind": kind, "name": name, "summary": spec.summary}
        about |= {"plugin": plugin.distribution, "version": plugin.version, "traits": traits(spec)}
        options_of = to_json(describe(spec) if kind != "model" else [])
        print_json({**about, "cite": spec.cite, "options": options_of})
    else:
        out().print(Group(*_description(kind, registration)))


def _settings_page(title: str, settings: Settings, refusal: KEError | None) -> Group:
    table = plain_table("hyperparameter", "value", "why")
    for option, setting in settings.items():
        table.add_row(literal(option), literal(_value_words(setting.value)), literal(setting.reason))
    lines: list[RenderableType] = [titled(title, table)]
    if refusal is not None:
        lines += [literal(f"with these values, it cannot edit the model: {refusal.message}", "red")]
        lines += [literal(f"hint: {refusal.hint}")] if refusal.hint else []
    return Group(*lines)


def _value_words(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "by layer" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _description(kind: str, registration: Registration) -> list[RenderableType]:
    spec, plugin = registration.spec, registration.plugin
    origin = f"from {plugin.distribution or plugin.name} {plugin.version}".rstrip()
    what = spec.editor_kind if isinstance(spec, EditorSpec) else kind
    shown: list[RenderableType] = [literal(f"{spec.name}: {spec.summary}", "bold"), literal(f"{what}, {origin}")]
    shown += [literal(line) for line in traits(spec)]
    if kind != "model":  # the options of ke eval load a model
        shown += ["", _options(spec)]
    if spec.cite:
        shown += ["", literal(f"cite: {spec.cite}")]
    return shown


def _options(spec: Spec[Any]) -> RenderableType:
    options = describe(spec)
    if not options:
        return literal("no options")
    table = plain_table("option", "default", "what it does")
    for option in options:
        told = literal(option.help).append(literal(f"\n({option.type})", "dim"))
        table.add_row(literal(option_path(spec, option.name)), literal(option.default), told)
    return titled("set with -o OPTION=VALUE", table)


def traits(spec: Spec[Any]) -> list[str]:
    """Return properties of a component, in words."""
    match spec:
        case EditorSpec():
            found = {
                "changes the model's weights": spec.editor_kind == "weight editor",
                "adds state to the forward pass and leaves the weights unchanged": spec.adaptor,
                "leaves the model unchanged": spec.editor_kind == "memory editor",
                "needs no model": not spec.needs_model,
                f"must be trained first: ke train {spec.name}": spec.trainer is not None,
                "its edited models can be saved and loaded": spec.load is not None,
                "applies one edit at a time": spec.one_at_a_time,
                "needs edits that name their subject": spec.needs_subject,
                "can hide edits from a case": spec.masks,
                "uses its own prompts": spec.own_prompt,
                "is given the edits of each question's own case": spec.uses_own_edits is True,
                "may be given the edits of each question's own case": callable(spec.uses_own_edits),
                f"the fact of an edit is asked as a {spec.edited_form}": True,
            }
            return [trait for trait, holds in found.items() if holds]
        case DatasetSpec():
            told = {"aspects": spec.aspects, "styles": spec.styles, "metrics": spec.metrics, "judge": (spec.judge,)}
            return [f"{what}: {', '.join(names)}" for what, names in told.items() if any(names)]
        case MetricSpec():
            further = {f"table {title}": tuple(named.values()) for title, named in spec.tables.items()}
            told = {"aspects": tuple(spec.columns), "columns": tuple(spec.columns.values())}
            told |= {**further, "broken down by": spec.by}
            return [f"{what}: {', '.join(names)}" for what, names in told.items() if names]
        case JudgeSpec():
            labels = ", ".join(label for group in spec.labels.values() for label in group)
            found = {"calls a model": spec.needs_model, f"labels: {labels}": bool(labels)}
            return [trait for trait, holds in found.items() if holds]
        case ModelSpec():
            return [f"knows {m.name}: {m.summary} ({m.size_mb} MB, {m.license})" for m in spec.known()]
        case _:
            return []


def _hyperparameters(
    app: App, name: str, choice: ModelChoice, options: Options, progress: Progress
) -> tuple[Settings, KEError | None]:
    """Return the hyperparameters that depend on the model, and the reason if the editor cannot edit it with them.

    The model's weights are read only if a value depends on them. Published values need only its shape. Raises
    BadConfig for an editor that has no such hyperparameters.
    """
    catalog = app.catalog
    editor = resolve_component(catalog, "editor", name, options)
    spec = editor.spec
    reject_unused(options, [spec])
    if spec.settings is None:
        raise BadConfig(f"no option of {spec.name} depends on the model", hint=f"ke show {spec.name} lists its options")
    source, request = find_model(choice.reference, choice.how, catalog)

    @cache
    def session() -> Session[Any]:
        model = choice.load(catalog, progress)
        refuse_weightless(spec, model)
        return open_session(model, catalog=catalog, seed=0, progress=progress, material={})

    @cache
    def opened() -> ModelFacts:
        found: ModelFacts | None = app.plugins.manager.hook.ke_model_facts(session=session())
        if found is None:
            raise BadConfig(
                f"no installed plugin knows the facts of {choice.reference} that hyperparameters are derived from",
                hint="pip install ke-weights",
            )
        return found

    if source.shape is None:
        facts = opened()
    else:
        facts = ModelFacts(
            shape=source.shape(request),
            scale=lambda layer: opened().scale(layer),
            trace=lambda: opened().trace(),
            map_distance=lambda layer, part, side: opened().map_distance(layer, part, side),
        )
    found = spec.settings(editor.config, facts)
    read = bool(session.cache_info().currsize)
    return found, _refusal(editor.build(), session()) if read else None


def _refusal(editor: Editor, session: Session[Any]) -> KEError | None:
    try:
        editor.check(session, ())
    except KEError as refused:
        return refused
    return None
