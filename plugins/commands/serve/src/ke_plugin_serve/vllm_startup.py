"""Compute the first adapter and load it into a vLLM server: ``ke serve --backend vllm``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from attrs import define, frozen

from ke_core.app import Catalog, err, literal
from ke_core.plugin import EditorSpec, KEError, Progress
from ke_plugin_serve.active_edits import ActiveEdits, ServedChange
from ke_plugin_serve.startup import ServeRequest, resolve_editor, state_path
from ke_plugin_serve.state import StateFile, first_edits, held

if TYPE_CHECKING:
    from ke_weights.plugin import LiveAdapters


@frozen(kw_only=True)
class VllmRequest:
    """The options of ``--backend vllm``. ``folder``: for adapters; None: a temporary one."""

    serve: ServeRequest
    url: str
    folder: Path | None = None
    efficacy: float = 1.0


@define(eq=False)
class VllmModel:
    """A model of a vLLM server whose edits are adapters.

    ``first``: the name of the model that answers at the start. ``notices``: lines for the user.
    """

    spec: EditorSpec
    live: LiveAdapters
    bank: ActiveEdits
    state: StateFile | None
    first: str
    notices: tuple[str, ...]

    def prepare(self, change: ServedChange) -> tuple[str, ActiveEdits]:
        """Load the adapter of the changed edits and save them. Return its name and the edits, which are not active yet.

        Raises KEError; then neither the server nor the state file has changed.
        """
        changed = ActiveEdits(dict(self.bank.edits))
        changed.make(change)
        name = load(self.live, changed)
        try:
            if change and self.state is not None:
                self.state.write(changed)
        except BaseException:
            if name != self.live.base:
                self.live.unload(name)
            raise
        return name, changed


def load(live: LiveAdapters, bank: ActiveEdits) -> str:
    """Return the name of the server's model with the edits of ``bank``, after loading it. Raises KEError."""
    return live.load([one.sourced for one in bank.edits.values()]) if bank.edits else live.base


@contextmanager
def opened_vllm(request: VllmRequest, catalog: Catalog, progress: Progress) -> Iterator[VllmModel]:
    """Load the adapter with the first edits while the context is open; unload all adapters at its end.

    It prints the names of adapters that could not be unloaded.
    Raises KEErrors: an editor without low-rank updates, before anything is loaded; a server that cannot load adapters;
    edits that the editor cannot make or the server does not answer.
    """
    if find_spec("ke_weights") is None:
        raise KEError(
            "--backend vllm needs ke-weights, which is not installed", hint="pip install 'ke-plugin-serve[vllm]'"
        )
    from ke_weights.plugin import LiveSettings, open_live_adapters  # noqa: PLC0415  optional, and imports torch

    chosen, path = resolve_editor(request.serve, catalog), state_path(request.serve)
    assert isinstance(chosen.spec, EditorSpec)
    scratch = nullcontext(request.folder) if request.folder else TemporaryDirectory(prefix="ke-adapters-")
    with held(path, request.serve.edits) if path else nullcontext() as state, scratch as folder:
        bank, notice = first_edits(state, request.serve.edits)
        settings = LiveSettings(
            url=request.url, model=request.serve.model, folder=Path(folder), efficacy=request.efficacy,
            seed=request.serve.seed,
        )  # fmt: skip
        live = open_live_adapters(settings, chosen, catalog, progress)
        try:
            first = load(live, bank)
            notices = tuple(line for line in (notice, _left(live)) if line)
            yield VllmModel(spec=chosen.spec, live=live, bank=bank, state=state, first=first, notices=notices)
        finally:
            if stuck := live.close():
                line = f"{', '.join(stuck)} could not be unloaded and may still be served{_unload_hint(stuck[0])}"
                err().print(literal(line), soft_wrap=True)


def _left(live: LiveAdapters) -> str:
    """Return a line about adapters that this process did not load."""
    if not live.left:
        return ""
    names = ", ".join(live.left)
    return f"the server also has {names}, of another ke serve or of one that was killed{_unload_hint(live.left[0])}"


def _unload_hint(name: str) -> str:
    return f'; to unload one: POST /v1/unload_lora_adapter {{"lora_name": "{name}"}}'
