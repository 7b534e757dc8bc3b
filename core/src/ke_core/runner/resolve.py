"""Resolve names and options to components, and to their specifications in records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from attrs import field, fields_dict, frozen

from ke_core.plugins.catalog import Catalog, Registration
from ke_core.plugins.code import code_digest
from ke_core.plugins.faults import CORE_DISTRIBUTION, one_line_reason
from ke_core.plugins.options import configure, kind_of, option_fields, option_path, own_options
from ke_core.spec.codec import digest, from_json, to_json
from ke_core.spec.component import Spec
from ke_core.spec.errors import BadConfig, BadRun, KEError, PluginBroken
from ke_core.spec.protocols import Dataset, Editor, Judge, Metric, ModelMetric
from ke_core.spec.runspec import Component
from ke_core.storage.files import sha256_of

Options = Mapping[str, Mapping[str, str]]
"""``{prefix: {field: text}}``, as ``ke_core.plugins.options.split_options`` makes it."""

CONTENT = "sha256:"
DATA_DIR = "data_dir"
"""The option for the folder of data files. It depends on the machine, so it is not part of a run."""


S_co = TypeVar("S_co", bound=Spec[Any], covariant=True)


@frozen(kw_only=True)
class ResolvedComponent(Generic[S_co]):
    """A component with its options. ``files``: the paths of the files that ``component`` names by their digest."""

    spec: S_co
    config: Any
    component: Component
    files: Mapping[str, str] = field(factory=dict)

    def build(self) -> Any:
        """Build a new instance. Raises PluginBroken if the plugin fails to build it."""
        return build_component(self.spec, self.config, plugin=self.component.distribution)

    @cached_property
    def built(self) -> Any:
        """The instance that is shared by everything that uses this component."""
        return self.build()


def resolve_component(catalog: Catalog, kind: str, name: str, options: Options) -> ResolvedComponent[Any]:
    """Return the component of that kind and name, with the options under its prefix."""
    registration = catalog.registration(kind, name)
    return _chosen(catalog, registration, configure(registration.spec, own_options(registration.spec, options)))


def choose_again(
    catalog: Catalog, kind: str, recorded: Component, *, files: Mapping[str, str], data_dir: str = ""
) -> ResolvedComponent[Any]:
    """Resolve the component of a recorded run again, with the installed plugin.

    ``files``: the paths of its files by the digest of their content (``ResolvedComponent.files``). A file that is no
    longer there is searched for in ``data_dir``. Raises BadRun if a file is in neither place, or has changed.
    """
    registration = catalog.registration(kind, recorded.name)
    given = with_flag(registration.spec, {}, DATA_DIR, data_dir).get(registration.spec.prefix, {})
    named = {name: str(recorded.options.get(name)) for name in naming_files(registration.spec.config)}
    again = {
        name: _found_again(content, files.get(content, ""), data_dir, option=option_path(registration.spec, option))
        for option, name in option_fields(registration.spec).items()
        if (content := named.get(name, "")).startswith(CONTENT)
    }
    config: Any = from_json(
        {**recorded.options, **given, **again},
        registration.spec.config,
        of=f"recorded options of {recorded.name}",
        error=BadRun,
        hint=f"the run was made with {recorded.distribution} {recorded.version}: install that version",
    )
    return _chosen(catalog, registration, config)


def with_flag(spec: Spec[Any], options: Options, name: str, value: str) -> dict[str, dict[str, str]]:
    """Return ``options`` with a command-line flag (``--data-dir``) as the component's option of that name.

    Raises BadConfig if the component has no such option, or if it is given as an option too.
    """
    found = {prefix: dict(given) for prefix, given in options.items()}
    if not value:
        return found
    flag = f"--{name.replace('_', '-')}"
    if name not in fields_dict(spec.config):
        raise BadConfig(f"{kind_of(spec)} {spec.name} takes no {flag}", hint=f"ke show {spec.name}")
    own = found.setdefault(spec.prefix, {})
    if own.get(name, value) != value:
        raise BadConfig(f"{flag} and -o {spec.prefix}.{name} say different things", hint="give one of them")
    own[name] = value
    return found


def with_data_dir(specs: Sequence[Spec[Any]], options: Options, data_dir: str) -> Options:
    """Return ``options`` with ``--data-dir`` for those of several datasets that read files. Raises as ``with_flag``.

    It is an error if none of them does.
    """
    for spec in [one for one in specs if DATA_DIR in fields_dict(one.config)] or specs:
        options = with_flag(spec, options, DATA_DIR, data_dir)
    return options


def _chosen(catalog: Catalog, registration: Registration, config: Any) -> ResolvedComponent[Any]:
    options = {name: value for name, value in to_json(config).items() if name != DATA_DIR}
    files: dict[str, str] = {}
    for name in naming_files(type(config)):
        words = fields_dict(type(config))[name].metadata.get("words", ())  # no file names, even if a file is called so
        if options[name] and options[name] not in words:
            path = Path(str(options[name])).expanduser()
            options[name] = _content(path) or options[name]  # or a name that the component knows
            if str(options[name]).startswith(CONTENT):
                files[str(options[name])] = str(path.resolve())
    others = [one for one in catalog.installed if one.distribution != CORE_DISTRIBUTION]  # toolkits too
    component = Component(
        name=registration.spec.name,
        distribution=registration.plugin.distribution,
        version=registration.plugin.version,
        code="+".join(code_digest(one, others) for one in (registration.plugin, *registration.parts)),
        options=options,
    )
    return ResolvedComponent(spec=registration.spec, config=config, component=component, files=files)


def naming_files(config: type) -> list[str]:
    """Return the options that may name a file or a folder."""
    return [name for name, attribute in fields_dict(config).items() if attribute.metadata.get("file")]


def _found_again(content: str, path: str, data_dir: str, *, option: str) -> str:
    """Return the current path of a file with that content: ``path``, or any file in ``data_dir``."""
    there, folder = [Path(path)] if path else [], Path(data_dir).expanduser()
    for place in (*there, *(sorted(folder.iterdir()) if data_dir and folder.is_dir() else ())):
        if _content(place) == content:
            return str(place)
    lay = f"{path}, which the run was made with (-o {option})," if path else f"the file of -o {option}"
    gone = "has changed since" if path and Path(path).exists() else "is not there any more" if path else "is not known"
    raise BadRun(f"{lay} {gone}", hint="point --data-dir to a folder that holds it as it was, under any name")


def _content(path: Path) -> str:
    """Return the digest of the content of a file or a folder. Empty if there is none."""
    found = [path] if path.is_file() else sorted(inner for inner in path.rglob("*") if inner.is_file())
    if not found:
        return ""
    return f"{CONTENT}{digest([[str(inner.relative_to(path)), sha256_of(inner)] for inner in found])}"


BUILDS: Mapping[str, tuple[type[Any], ...]] = {
    "editor": (Editor,),
    "dataset": (Dataset,),
    "judge": (Judge,),
    "metric": (Metric, ModelMetric),
}


def build_component(spec: Spec[Any], config: Any, *, plugin: str) -> Any:
    """Build a component. Raises PluginBroken if ``spec.build`` fails or returns something else."""
    kind = kind_of(spec)
    try:
        made = spec.build(config)
    except (KEError, OSError, MemoryError):  # the user can fix these
        raise
    except Exception as error:
        rest = "" if isinstance(error, ImportError) else "; its author catches what options can cause: raise BadConfig"
        raise PluginBroken(
            f"{kind} {spec.name} of {plugin} fails while it is built: {one_line_reason(error)}",
            hint=f"--traceback shows where{rest}",
        ) from error
    wanted = BUILDS[kind]
    if not isinstance(made, wanted):
        missing = ", ".join(sorted(name for name in _methods(wanted[0]) if not hasattr(made, name)))
        raise PluginBroken(
            f"{kind} {spec.name} of {plugin} is built as {type(made).__name__}, which lacks {missing}",
            hint=f"build must return an object with every method of {wanted[0].__name__} (ke_core.plugin)",
        )
    return made


def _methods(protocol: type[Any]) -> list[str]:
    return [name for name, found in vars(protocol).items() if callable(found) and not name.startswith("_")]
