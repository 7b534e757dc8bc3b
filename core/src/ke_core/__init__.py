"""Knowledge editing for language models: ``import ke_core as ke`` (see ``ke_core.api``).

Nothing is imported before it is used, so that ``ke --help`` stays fast (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ke_core.api import *  # noqa: F403  the names of __all__

__all__ = [  # noqa: F405  from ke_core.api
    "EditedModel", "Evaluation", "Model", "Table", "compare", "connect", "datasets", "edit", "editors", "evaluate",
    "judges", "load", "metrics", "models", "read_run", "wrap",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ke_core import api  # noqa: PLC0415  imports the runner

    return getattr(api, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
