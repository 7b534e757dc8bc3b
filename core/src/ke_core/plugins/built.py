"""From a spec and its config to the thing itself, with the plugin named where that goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ke_core.errors import KEError, PluginBroken
from ke_core.plugins.faults import one_line_reason
from ke_core.plugins.options import kind_of
from ke_core.protocols import Dataset, Editor, Judge, Metric, ModelMetric
from ke_core.specs import Spec

BUILDS: Mapping[str, tuple[type[Any], ...]] = {
    "editor": (Editor,),
    "dataset": (Dataset,),
    "judge": (Judge,),
    "metric": (Metric, ModelMetric),
}


def build_component(spec: Spec[Any], config: Any, *, plugin: str) -> Any:
    """What ``spec.build`` makes of ``config``. Raises PluginBroken where it raises, or makes something else."""
    kind = kind_of(spec)
    try:
        made = spec.build(config)
    except (KEError, OSError, MemoryError):  # what the user or the machine can mend
        raise
    except Exception as error:
        raise PluginBroken(
            f"{kind} {spec.name} of {plugin} fails while it is built: {one_line_reason(error)}",
            hint="--traceback shows where; its author catches what options can cause and raises BadConfig",
        ) from error
    wanted = BUILDS[kind]
    if not isinstance(made, wanted):
        missing = ", ".join(sorted(name for name in _methods(wanted[0]) if not hasattr(made, name)))
        raise PluginBroken(
            f"{kind} {spec.name} of {plugin} is built as {type(made).__name__}, which lacks {missing}",
            hint=f"its author returns from build what has every method of {wanted[0].__name__} in ke_core.protocols",
        )
    return made


def _methods(protocol: type[Any]) -> list[str]:
    return [name for name, found in vars(protocol).items() if callable(found) and not name.startswith("_")]
