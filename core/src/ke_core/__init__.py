"""Knowledge editing for language models: ``import ke_core as ke`` (see ``ke_core.api``).

Nothing is imported before it is used, so that ``ke --help`` stays fast (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ke_core.api import connect, edit, evaluate, load, read_run

__all__ = ["connect", "edit", "evaluate", "load", "read_run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ke_core import api  # noqa: PLC0415  imports the runner

    return getattr(api, name)
