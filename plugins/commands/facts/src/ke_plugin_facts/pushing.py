"""Serve the versions of a managed model as LoRA adapters of a running vLLM server: ``ke apply --push``.

Version 0002 of the folder ``edited`` is the model ``edited-0002`` of the server. A version is loaded and checked there
before it becomes the current one. Then the versions whose models the folder no longer has are unloaded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import frozen

from ke_core.app import Catalog
from ke_core.plugin import KEError, ModelRequest, Progress
from ke_plugin_facts.versions import MODEL, ManagedFolder
from ke_weights.bounds import Bound
from ke_weights.push import Adapters, Pushed, open_server, push_adapter
from ke_weights.suites import Check

UNUSED = "0000"
"""Not the number of a version."""


@frozen(kw_only=True)
class VersionServer:
    """A server for the versions of a folder. ``how``: options of the client. ``served``: its models when opened."""

    url: str
    how: ModelRequest
    catalog: Catalog
    progress: Progress
    folder: ManagedFolder
    adapters: Adapters
    served: tuple[str, ...]

    def serves(self, version: str) -> bool:
        """Return whether the server lists this version."""
        return _name(self.folder, version) in self.adapters.names()

    def push(self, version: str, suite: Sequence[Check], wanted: Sequence[Bound]) -> Pushed:
        """Load the adapter of a version and check it there. It is unloaded if the check fails.

        The server is not asked for log-probabilities, so bounds on ``preference`` are checked only before that.
        """
        name = _name(self.folder, version)
        if self.serves(version):
            self.adapters.unload(name)  # left by a process that was killed
        server = open_server(self.url, name, self.how, self.catalog, self.progress)
        asked = [one for one in wanted if one.metric != "preference"]
        return push_adapter(server, self.folder.folder(version) / MODEL, suite, asked)

    def unload_removed(self) -> tuple[str, ...]:
        """Unload the versions whose models the folder does not have. Return the names of those that may stay loaded."""
        stuck = []
        try:
            names = self.adapters.names()
        except KEError:  # the server does not answer any more
            names = self.served
        pattern = re.compile(re.escape(_name(self.folder, "")) + r"(\d{4,})")
        for name in names:
            found = pattern.fullmatch(name)
            if found is None or (self.folder.folder(found[1]) / MODEL).exists():
                continue
            try:
                self.adapters.unload(name)
            except KEError:
                stuck.append(name)
        return tuple(stuck)


def open_version_server(
    url: str, how: ModelRequest, folder: ManagedFolder, catalog: Catalog, progress: Progress
) -> VersionServer:
    """Check that the server can load adapters at run time. Changes nothing. Raises ModelUnavailable."""
    server = open_server(url, _name(folder, UNUSED), how, catalog, progress)
    return VersionServer(
        url=url, how=how, catalog=catalog, progress=progress, folder=folder, adapters=server.adapters,
        served=tuple(server.adapters.names()),
    )  # fmt: skip


def _name(folder: ManagedFolder, version: str) -> str:
    return f"{folder.root.resolve().name}-{version}"
