"""Every hook there is. A hook returns values: call it, look at what it returns.

Each is called once, at start-up: return specs, import nothing heavy, print nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

import pluggy
from attrs import field, frozen, validators

from ke_core.spec.protocols import Session
from ke_core.spec.settings import ModelFacts
from ke_core.spec.specs import NAME_PATTERN

if TYPE_CHECKING:
    import click

    from ke_core.spec.protocols import Session
    from ke_core.spec.settings import ModelFacts
    from ke_core.spec.specs import DatasetSpec, EditorSpec, EncoderSpec, JudgeSpec, MetricSpec, ModelSpec

hookspec = pluggy.HookspecMarker("ke")


@hookspec
def ke_editors() -> Iterable[EditorSpec]:
    """Offer editing methods, chosen with ``--editor NAME``.

    :return: one spec per method; an empty list is fine.
    """
    return ()


@hookspec
def ke_datasets() -> Iterable[DatasetSpec]:
    """Offer benchmarks, chosen with ``--dataset NAME``.

    :return: one spec per dataset; variants of one family share a config class and a ``family``.
    """
    return ()


@hookspec
def ke_metrics() -> Iterable[MetricSpec]:
    """Offer metrics, chosen with ``--metric NAME`` or named by a dataset.

    :return: one spec per metric.
    """
    return ()


@hookspec
def ke_judges() -> Iterable[JudgeSpec]:
    """Offer judges, chosen with ``--judge NAME`` or named by a dataset.

    :return: one spec per judge.
    """
    return ()


@hookspec
def ke_models() -> Iterable[ModelSpec]:
    """Offer model sources: what stands before the colon in ``--model source:id``.

    :return: one spec per source. The core's own ``hf`` comes through this hook too.
    """
    return ()


@hookspec
def ke_encoders() -> Iterable[EncoderSpec]:
    """Offer sources of sentence encoders, for editors that retrieve texts by meaning.

    :return: one spec per source.
    """
    return ()


@hookspec
def ke_report_formats() -> Iterable[ReportFormat]:
    """Offer file formats for ``ke report``; each becomes an option ``--NAME FILE``.

    :return: one format per kind of file.
    """
    return ()


@hookspec
def ke_doctor(base_url: str) -> Iterable[HealthFinding]:
    """Check what this plugin needs, for ``ke doctor``. May import heavy libraries; must change nothing.

    :param base_url: a model server to contact; empty: contact nothing.
    :return: one finding per thing that was checked.
    """
    return ()


@hookspec(firstresult=True)
def ke_model_facts(session: Session[Any]) -> ModelFacts | None:
    """Return the facts of an open model that hyperparameters are derived from, for ``ke show NAME --model MODEL``.

    :param session: the open model's session.
    :return: the facts, or None if this plugin knows nothing of such models.
    """
    return None


@hookspec
def ke_hookspecs() -> Iterable[object]:
    """Declare hooks of your own, which other plugins implement with ``@hookimpl(optionalhook=True)``.

    :return: modules or objects with functions marked by ``pluggy.HookspecMarker("ke")``.
    """
    return ()


@hookspec
def ke_commands(group: click.Group) -> None:
    """Add commands to ``ke``.

    :param group: the root command; add to it with ``group.add_command``. The core's own commands come
        through this hook too.
    """


@frozen(kw_only=True)
class HealthFinding:
    """One thing that ``ke doctor`` checked. ``note``: it works but may cause trouble. ``advice``: what to do."""

    area: str
    what: str
    state: Literal["ok", "note", "wrong"] = "ok"
    advice: str = ""


@frozen(kw_only=True)
class ReportFormat:
    """A file format of ``ke report``, chosen with ``--NAME FILE``.

    ``render`` gets the loaded runs, the catalog, the folder with published data files ("" for the default) and whether
    to include the breakdowns by tag; it returns the text of the file.
    """

    name: str = field(validator=validators.matches_re(NAME_PATTERN))
    help: str
    render: Callable[[Any, Any, str, bool], str]
