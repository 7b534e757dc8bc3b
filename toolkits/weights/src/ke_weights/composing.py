"""Update wrappers: ``--editor memit+rect`` is the editor ``memit`` whose updates pass through the wrapper ``rect``.

A composed editor is an ordinary ``EditorSpec``. Its config class extends the editor's by the options of the wrappers,
which keep their own prefix (``-o memit.steps=10 -o rect.keep=0.4``). ``wrapping`` applies the wrappers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, get_type_hints

from attrs import evolve, fields, frozen
from attrs import field as config_field

from ke_core.app import Catalog, Plugins, Registration, directory_entries, registered_specs
from ke_core.plugin import BadConfig, Editor, EditorSpec, ModelFacts, Setting, Spec, UnknownComponent
from ke_weights.hyperparameters import TargetConfig
from ke_weights.wrappers import UpdateWrapperSpec, field_name

HOOK = "ke_update_wrappers"
SEPARATOR = "+"


def composed_editor(name: str, catalog: Catalog, plugins: Plugins) -> Registration | None:
    """Return the editor ``EDITOR+WRAPPER[+WRAPPER ...]``, or None for another name.

    Raises BadConfig for an editor or wrappers that cannot be combined, and UnknownComponent.
    """
    base, *names = name.split(SEPARATOR)
    known = registered_wrappers(plugins)
    editors = ", ".join(one for one in catalog.names("editor") if _locates(catalog.spec("editor", one)))
    if name in known:
        raise BadConfig(
            f"{name} is an update wrapper, not an editor", hint=f"add it to one of: {editors}, as in memit+{name}"
        )
    if not names:
        return None
    parts = [_wrapper(one, known) for one in names]
    if len(set(names)) < len(names):
        raise BadConfig(f"{name} names a wrapper twice", hint="name each wrapper once, in the order of their use")
    editor = catalog.registration("editor", base)
    if not (isinstance(editor.spec, EditorSpec) and _locates(editor.spec)):
        raise BadConfig(
            f"{names[0]} wraps editors that locate a fact and write an update, which {base} does not",
            hint=f"use one of: {editors}",
        )
    every = [editor, *parts]
    return Registration(
        spec=_composed(name, editor.spec, [part.spec for part in parts]),
        plugin=evolve(
            editor.plugin,
            distribution=SEPARATOR.join(one.plugin.distribution for one in every),
            version=SEPARATOR.join(one.plugin.version for one in every),
        ),
        parts=tuple(part.plugin for part in parts),
    )


def registered_wrappers(plugins: Plugins) -> dict[str, Registration]:
    """Return the installed wrappers by name."""
    if not hasattr(plugins.manager.hook, HOOK):  # this toolkit is registered without its hook, in a test
        return {}
    return {
        spec.name: Registration(spec=spec, plugin=plugins.installed[plugin])
        for plugin, specs in registered_specs(plugins, HOOK, UpdateWrapperSpec)
        for spec in specs
    }


def _wrapper(name: str, known: Mapping[str, Registration]) -> Registration:
    if name in known:
        return known[name]
    elsewhere = {entry.name: entry.distribution for entry in directory_entries("wrapper")}
    hint = f"pip install {elsewhere[name]}" if name in elsewhere else f"installed: {', '.join(known) or 'none'}"
    raise UnknownComponent(f"no update wrapper called {name!r}", hint=hint)


def _locates(spec: Spec[Any]) -> bool:
    return issubclass(spec.config, TargetConfig)


def _composed(name: str, editor: EditorSpec, wrappers: Sequence[Any]) -> EditorSpec:
    def resolve(config: Any, facts: ModelFacts) -> Mapping[str, Setting]:
        found = dict(editor.settings(config, facts)) if editor.settings else {}
        for wrapper in wrappers:
            found |= wrapper.resolved(config, facts)
        return found

    return evolve(
        editor,
        name=name,
        family=editor.prefix,
        summary="; ".join(one.summary for one in (editor, *wrappers)),
        cite="; ".join(one.cite for one in (editor, *wrappers) if one.cite),
        config=composed_config(editor.config, tuple(wrappers)),
        settings=resolve,
        build=partial(_build, editor, tuple(wrappers), resolve),
    )


def _build(editor: EditorSpec, wrappers: Sequence[UpdateWrapperSpec], resolve: Any, config: Any) -> Editor:
    from ke_weights.wrapping import wrapped  # noqa: PLC0415  imports torch

    parts = {spec.prefix: spec.build(spec.config_in(config)) for spec in wrappers}
    return wrapped(editor.build(config), editor.name, parts, resolve)


@cache
def composed_config(base: type, wrappers: tuple[UpdateWrapperSpec, ...]) -> type:
    """Return the config class of an editor with the options of its wrappers."""
    body: dict[str, Any] = {"__module__": __name__, "__doc__": "Options of an editor with update wrappers."}
    hints = body["__annotations__"] = dict[str, Any]()
    for wrapper in wrappers:
        for one in fields(wrapper.config):
            name = field_name(wrapper, one.name)
            about = {**one.metadata, "option": f"{wrapper.prefix}.{one.name}"}
            body[name] = config_field(default=one.default, validator=one.validator, metadata=about)
            hints[name] = get_type_hints(wrapper.config)[one.name]
    made: type = frozen(kw_only=True)(type(f"Wrapped{base.__name__}", (base,), body))
    return made
