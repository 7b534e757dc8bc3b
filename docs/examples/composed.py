"""Editors with a longer name: ``EDITOR+last`` is the editor ``EDITOR`` that makes only the last edit of each batch."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from attrs import evolve, frozen

from ke_core.app import Catalog, Plugins, Registration
from ke_core.plugin import Edit, Edited, Editor, Session, hookimpl

PLUGIN = "composed"
"""The name of this plugin's entry point."""


@frozen
class Last:
    """The editor with fewer edits."""

    editor: Editor

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Return the edits that cannot be applied, with the reason."""
        return self.editor.check(session, edits[-1:])

    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> AbstractContextManager[Edited]:
        """Apply the last edit."""
        return self.editor.edit(session, edits[-1:])


@hookimpl
def ke_composed_component(kind: str, name: str, catalog: Catalog, plugins: Plugins) -> Registration | None:
    """Return the editor ``EDITOR+last``. A run records the code of this plugin too."""
    base, _plus, part = name.partition("+")
    if kind != "editor" or part != "last":
        return None
    registration = catalog.registration("editor", base)
    spec: Any = registration.spec
    composed = evolve(spec, name=name, family=spec.prefix, build=lambda config: Last(spec.build(config)))
    return evolve(registration, spec=composed, parts=(plugins.installed[PLUGIN],))
