"""A new hook: other plugins implement ``ke_teams`` with ``@hookimpl(optionalhook=True)``."""

from collections.abc import Iterable

import pluggy

from ke_core.plugin import hookimpl

hookspec = pluggy.HookspecMarker("ke")


class Teams:
    """The hooks of this plugin."""

    @hookspec
    def ke_teams(self) -> Iterable[str]:
        """Register names of teams.

        :return: the names.
        """
        return ()


@hookimpl
def ke_hookspecs() -> list[object]:
    """Declare the hook."""
    return [Teams]
