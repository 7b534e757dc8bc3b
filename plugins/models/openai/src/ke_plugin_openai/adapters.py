"""LoRA adapters of a running vLLM server, which loads and unloads them without a restart.

The routes exist if the server was started with ``VLLM_ALLOW_RUNTIME_LORA_UPDATING=True``. vLLM lists an adapter as a
model whose ``parent`` is the served base model. It reports its rank limit (``--max-lora-rank``) before loading only
with ``VLLM_SERVER_DEV_MODE=1``; otherwise the message of a refused adapter contains it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ke_core.plugin import BadConfig, KEError, ModelUnavailable, ServerFailed, ServerRefused
from ke_plugin_openai.client import CONNECT, ApiClient
from ke_plugin_openai.faults import Transient

LOAD, UNLOAD, INFO = "/load_lora_adapter", "/unload_lora_adapter", "/server_info?config_format=json"
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values that ``--max-lora-rank`` accepts."""
LIMIT = re.compile(r"max_lora_rank\D{0,4}(\d+)")
NO_PATH = re.compile(r"no adapter found", re.IGNORECASE)
ENABLE = "start vLLM with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and --enable-lora"


@frozen(kw_only=True)
class ServerAdapters:
    """The adapters of the server of ``client``."""

    client: ApiClient

    def base_model(self, name: str) -> str:
        """Return the served base model, if an adapter called ``name`` can be added. Changes nothing.

        Raises ModelUnavailable for a server without models or without the routes, BadConfig for a name in use.
        """
        models = self._models()
        if name in [one.get("id") for one in models]:
            raise BadConfig(
                f"{self.client.url} already serves a model named {name!r}",
                hint="use another folder name: under the same one, vLLM would answer from its cache of the old adapter",
            )
        base = next((str(one["id"]) for one in models if one.get("id") and not one.get("parent")), "")
        if not base:
            raise ModelUnavailable(f"{self.client.url} lists no base model", hint="start vLLM with a model")
        self._find_routes(name)
        return base

    def names(self) -> list[str]:
        """Return the names of all models that the server lists. Raises ModelUnavailable."""
        return [str(one.get("id")) for one in self._models()]

    def _models(self) -> list[dict[str, Any]]:
        try:
            listed = self.client.once("GET", "/models", patience=CONNECT).get("data")
        except Transient as error:
            raise ModelUnavailable(error.message, hint="start the server, or correct its address") from None
        return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []

    def _find_routes(self, name: str) -> None:
        """Raise ModelUnavailable if the server cannot load adapters: unloading an unknown one is refused by name."""
        try:
            self._send(UNLOAD, {"lora_name": name})
        except ServerRefused as error:
            if error.status != 404:
                raise
            if f"'{name}'" not in error.message:
                raise ModelUnavailable(f"{self.client.url} cannot load adapters while it runs", hint=ENABLE) from None

    def load(self, name: str, folder: Path, rank: int) -> None:
        """Load the adapter in ``folder``, a path that the server can read, as the model ``name``.

        Raises BadConfig if its rank is above the server's limit, ServerFailed if the server refuses it.
        """
        limit = self._rank_limit()
        if rank > min(limit or RANKS[-1], RANKS[-1]):
            raise _above(rank, limit)
        try:
            self._send(LOAD, {"lora_name": name, "lora_path": str(folder)})
        except ServerFailed as error:
            if found := LIMIT.search(error.message):
                raise _above(rank, int(found[1])) from None
            if NO_PATH.search(error.message):
                raise ServerFailed(
                    f"the server finds no adapter in {folder}",
                    hint="it reads the folder itself: write it to a path that its machine can read",
                ) from None
            raise

    def unload(self, name: str) -> None:
        """Unload the adapter ``name``. Raises ServerFailed."""
        self._send(UNLOAD, {"lora_name": name})

    def _send(self, path: str, body: Mapping[str, Any]) -> None:
        """Send one request. It is not repeated, because loading twice is an error."""
        try:
            self.client.send("POST", path, body)
        except Transient as error:
            raise ServerFailed(error.message) from None

    def _rank_limit(self) -> int | None:
        """Return the largest rank that the server accepts, if it reports its settings."""
        root = evolve(self.client, url=self.client.url.removesuffix("/v1"))
        try:
            settings = root.once("GET", INFO, patience=CONNECT).get("vllm_config")
        except (Transient, KEError):
            return None
        lora = settings.get("lora_config") if isinstance(settings, dict) else None
        limit = lora.get("max_lora_rank") if isinstance(lora, dict) else None
        return limit if isinstance(limit, int) else None


def _above(rank: int, limit: int | None) -> BadConfig:
    enough = next((one for one in RANKS if one >= rank), None)
    if enough is None:
        return BadConfig(
            f"the adapter has rank {rank}, and vLLM serves at most rank {RANKS[-1]}",
            hint="use fewer edits, or serve a checkpoint: --format merged",
        )
    return BadConfig(
        f"the adapter has rank {rank}, and the server accepts at most rank {limit}",
        hint=f"start vLLM with --max-lora-rank {enough}, or use fewer edits",
    )
