"""Edits of a running vLLM server: every state of the edits is one LoRA adapter, under a name of its own.

::

    live = open_live_adapters(settings, chosen, catalog, progress)    # checks the server, loads a copy of the model
    name = live.load(edits)                                           # computes, loads and checks "ke-3f9a1c-000001"
    live.unload(name)                                                 # when no request uses it any more
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from attrs import define, field, frozen

from ke_core.app import (
    CallProgress,
    Catalog,
    EditedModel,
    Model,
    ModelChoice,
    ResolvedComponent,
    open_session,
    refuse_weightless,
)
from ke_core.plugin import EditFailed, Generate, KEError, Progress, ServerRefused, SourcedEdit
from ke_weights.bounds import Bound
from ke_weights.completions import Completion
from ke_weights.editing import LoadedModel, active_patch, with_history
from ke_weights.low_rank import refuse_without_adapter
from ke_weights.patches.adapter import write_adapter
from ke_weights.patches.place import whole_folder
from ke_weights.push import NOT_FOUND, Adapters, Pushed, open_server, push_adapter
from ke_weights.suites import edit_checks

NAME = re.compile(r"ke-[0-9a-f]{6}-\d{6}")
UNUSED = "ke-000000"
SHOWN = 5
"""Facts that an error lists."""


@frozen(kw_only=True)
class LiveSettings:
    """``url``: of the vLLM server. ``model``: the model that it serves. ``folder``: for adapters; the server reads it.

    ``efficacy``: the fraction of the edited facts that the server must answer with the new object.
    """

    url: str
    model: ModelChoice
    folder: Path
    efficacy: float = 1.0
    seed: int = 0


@define(eq=False)
class LiveAdapters:
    """The adapters of one editor on one server. Only one thread at a time may use it, but any thread may close it.

    No name is used twice, by this process or another one: vLLM's prefix cache distinguishes adapters by their names
    only, so the keys and values of an earlier adapter would be used for a later one.

    ``base``: the server's name of the unedited model. ``left``: adapters that other processes loaded.
    """

    settings: LiveSettings
    catalog: Catalog
    progress: Progress
    base: str
    left: tuple[str, ...]
    _server: Adapters
    _loaded: LoadedModel
    _edited: EditedModel
    _process: str = field(factory=lambda: token_hex(3), init=False)
    _number: int = field(default=0, init=False)
    _names: dict[str, None] = field(factory=dict, init=False)
    _base_answers: dict[Generate, Completion] = field(factory=dict, init=False)
    _closed: bool = field(default=False, init=False)

    def load(self, edits: Sequence[SourcedEdit]) -> str:
        """Write all ``edits`` as one adapter, load it into the server, check it there, and return its name.

        Raises KEError with the reason, after the adapter was removed: unsupported edits, a server that cannot load
        adapters any more, a rank above its limit, a fact that it does not answer, a data-parallel rank without the
        adapter, ``close`` in the meantime. ``close`` tries again if the server does not unload an adapter that failed
        the check.
        """
        self._edited.check(edits)
        self._number += 1
        name = f"ke-{self._process}-{self._number:06}"
        folder = self.settings.folder / name
        server = open_server(self.settings.url, name, self.settings.model.how, self.catalog, self.progress)
        self._write(edits, folder)
        self._names[name] = None
        try:
            self._refuse_closed()
            checks = [edit_checks(one)[0] for one in edits]
            bound = Bound(metric="efficacy", value=self.settings.efficacy, least=True)
            # The base model is not checked: while other requests use an adapter, vLLM 0.32 for CPUs applies that to
            # requests of the same batch for the base model.
            _require_success(
                push_adapter(server, folder, checks, (bound,), check_base=False, base_answers=self._base_answers)
            )
            self._refuse_closed()
        except BaseException:
            with suppress(KEError):
                self.unload(name)
            raise
        return name

    def unload(self, name: str) -> None:
        """Remove an adapter that no request uses from the server, and then its folder.

        Raises ServerFailed if the server keeps it; ``close`` tries again.
        """
        try:
            self._server.unload(name)
        except ServerRefused as error:
            if error.status != NOT_FOUND:  # a restarted server does not have it
                raise
        self._names.pop(name, None)  # another thread may have unloaded it
        shutil.rmtree(self.settings.folder / name, ignore_errors=True)

    def close(self) -> list[str]:
        """Unload all adapters of this process. Return the names of those that could not be unloaded.

        If another thread is still loading an adapter, ``load`` unloads it and raises EditFailed.
        """
        self._closed = True
        stuck = []
        for name in list(self._names):
            try:
                self.unload(name)
            except KEError:
                stuck.append(name)
        return stuck

    def _refuse_closed(self) -> None:
        if self._closed:
            raise EditFailed("the adapters of the server have been closed", hint="start ke serve again")

    def _write(self, edits: Sequence[SourcedEdit], folder: Path) -> None:
        with (
            self._edited.active(tuple(edits)),
            active_patch(self._edited, self._loaded) as (patch, _originals),
            whole_folder(folder) as work,
        ):
            write_adapter(patch, self._loaded.model.module, work)


def open_live_adapters(
    settings: LiveSettings, chosen: ResolvedComponent[Any], catalog: Catalog, progress: Progress
) -> LiveAdapters:
    """Check the editor, then the server, and load a copy of the model that the server has.

    Raises KEErrors: an editor whose edits an adapter cannot hold, a server that cannot load adapters at run time, a
    model that the editor cannot edit.
    """
    refuse_without_adapter(chosen, catalog)
    server = open_server(settings.url, UNUSED, settings.model.how, catalog, progress)
    left = tuple(name for name in server.adapters.names() if NAME.fullmatch(name))
    model = settings.model.load(catalog, progress)
    refuse_weightless(chosen.spec, model)
    session = open_session(model, catalog=catalog, seed=settings.seed, progress=progress, material={}, remember=False)
    edited = EditedModel(
        model=Model(model=model, choice=settings.model, progress=CallProgress(progress)), editor=chosen, session=session
    )
    edited.check(())
    return LiveAdapters(
        settings=settings,
        catalog=catalog,
        progress=progress,
        base=server.base_name,
        left=left,
        server=server.adapters,
        loaded=with_history(session, settings.model, catalog),
        edited=edited,
    )


def _require_success(pushed: Pushed) -> None:
    """Raise EditFailed with the reasons and the facts that the server does not answer."""
    if not pushed.reasons:
        return
    missed = [one for one in pushed.verification.checked if not one.passed]
    facts = [
        f"{one.check.prompt!r} is answered with {one.after.text!r}, not with {one.check.expect[0]!r}" for one in missed
    ]
    more = [f"and {len(facts) - SHOWN} more"] if len(facts) > SHOWN else []
    stuck = [pushed.stuck] if pushed.stuck else []
    raise EditFailed(
        f"the check of the adapter on the server failed: {pushed.reasons[0]}",
        details=(*pushed.reasons[1:], *facts[:SHOWN], *more, *stuck),
        hint="the edits before this change stay active; change the edit, or the options of the editor",
    )
