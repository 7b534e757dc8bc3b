"""The hooks that plugins implement.

Hooks that register something return specifications, and are called once, at start-up: they import nothing heavy and
print nothing. The others are called when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pluggy
from attrs import field, frozen, validators

from ke_core.spec.component import NAME_PATTERN
from ke_core.spec.protocols import Session
from ke_core.spec.settings import ModelFacts

if TYPE_CHECKING:
    import click

    from ke_core.spec.specs import DatasetSpec, EditorSpec, EncoderSpec, JudgeSpec, MetricSpec, ModelSpec

hookspec = pluggy.HookspecMarker("ke")


@hookspec
def ke_editors() -> Iterable[EditorSpec]:
    """Provide editing methods, selected with ``--editor NAME``.

    :return: one spec per method; an empty list is fine.
    """
    return ()


@hookspec
def ke_datasets() -> Iterable[DatasetSpec]:
    """Provide benchmarks, selected with ``--dataset NAME``.

    :return: one spec per dataset; variants of one family share a config class and a ``family``.
    """
    return ()


@hookspec
def ke_metrics() -> Iterable[MetricSpec]:
    """Provide metrics, selected with ``--metric NAME`` or by a dataset.

    :return: one spec per metric.
    """
    return ()


@hookspec
def ke_judges() -> Iterable[JudgeSpec]:
    """Provide judges, selected with ``--judge NAME`` or by a dataset.

    :return: one spec per judge.
    """
    return ()


@hookspec
def ke_models() -> Iterable[ModelSpec]:
    """Provide model sources: the part before the colon in ``--model source:id``.

    :return: one spec per source.
    """
    return ()


@hookspec
def ke_encoders() -> Iterable[EncoderSpec]:
    """Provide sources of sentence encoders, for editors that retrieve texts by meaning.

    :return: one spec per source.
    """
    return ()


@hookspec
def ke_report_formats() -> Iterable[ReportFormat]:
    """Provide file formats for ``ke report``. Each one becomes an option ``--NAME FILE``.

    :return: one format per kind of file.
    """
    return ()


@hookspec(firstresult=True)
def ke_full_report(runs: Sequence[Any], slices: bool) -> object | None:  # noqa: FBT001  a hook's signature
    """Return the report that ``--full`` prints on the terminal.

    :param runs: the reports of the runs, as in ``ke_core.app.Reported``.
    :param slices: include the breakdowns by tag.
    :return: an object that rich can print, or None to leave it to another plugin.
    """


@hookspec(firstresult=True)
def ke_save_edit(edited: Any, what: str, path: Path, force: bool) -> bool | None:  # noqa: FBT001  a hook's signature
    """Save an active edit, for ``edited.save_patch`` and its like in the Python API.

    :param edited: the ``ke_core.api.EditedModel``.
    :param what: ``patch``, ``adapter`` or ``checkpoint``.
    :param path: the file or folder to write.
    :param force: replace an existing one.
    :return: True if it was saved, or None to leave it to another plugin.
    """


@hookspec(firstresult=True)
def ke_compare_runs(folders: Sequence[Any], catalog: Any) -> Sequence[Mapping[str, Any]] | None:
    """Compare runs query by query with the first one, for ``ke_core.api.compare``.

    :param folders: the run folders, ``ke_core.app.RunFolder``.
    :param catalog: the installed components, ``ke_core.app.Catalog``.
    :return: the rows of the comparison, or None to leave it to another plugin.
    """


@hookspec
def ke_doctor(base_url: str) -> Iterable[HealthFinding]:
    """Check what this plugin needs, for ``ke doctor``. It may import heavy libraries and must not change anything.

    :param base_url: a model server to contact, or empty to contact none.
    :return: one finding per check.
    """
    return ()


@hookspec(firstresult=True)
def ke_model_facts(session: Session[Any]) -> ModelFacts | None:
    """Return the facts of a loaded model from which hyperparameters are derived, for ``ke show NAME --model``.

    :param session: the session of the loaded model.
    :return: the facts, or None if this plugin does not know such models.
    """


@hookspec(firstresult=True)
def ke_composed_component(kind: str, name: str, catalog: Any, plugins: Any) -> Any | None:
    """Return the component for a name that no plugin registers, such as the editor ``memit+rect``.

    :param kind: the kind of component, such as ``editor``.
    :param name: the name that was requested.
    :param catalog: the installed components, ``ke_core.app.Catalog``.
    :param plugins: the installed plugins, to call hooks of your own with ``ke_core.app.registered_specs``.
    :return: a ``ke_core.app.Registration``, or None if the name is unknown. A KEError says why it cannot be composed.
    """


@hookspec
def ke_hookspecs() -> Iterable[object]:
    """Declare hooks of your own, which other plugins implement with ``@hookimpl(optionalhook=True)``.

    :return: modules or objects with functions marked by ``pluggy.HookspecMarker("ke")``.
    """
    return ()


@hookspec
def ke_commands(group: click.Group) -> None:
    """Add commands to ``ke``. The core's own commands use this hook too.

    :param group: the root command; call ``group.add_command``.
    """


@frozen(kw_only=True)
class HealthFinding:
    """The result of one check of ``ke doctor``. State ``note``: it works, with limits. ``advice``: what to do."""

    area: str
    what: str
    state: Literal["ok", "note", "wrong"] = "ok"
    advice: str = ""


@frozen(kw_only=True)
class ReportFormat:
    """A file format of ``ke report``, chosen with ``--NAME FILE``.

    ``render`` gets the loaded runs, the catalog, the folder of published data files ("" for the default), and whether
    to include breakdowns by tag. It returns the text of the file.
    """

    name: str = field(validator=validators.matches_re(NAME_PATTERN))
    help: str
    render: Callable[[Any, Any, str, bool], str]
