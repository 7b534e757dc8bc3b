"""The model source ``openai``. Importing it does not load the HTTP library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ke_core.plugin import LanguageModel, ModelRequest, ModelSpec, ModelUnavailable

if TYPE_CHECKING:
    from ke_plugin_openai.model import ApiModel

PUBLIC = "https://api.openai.com/v1"
"""Default of ``--base-url``."""


def build(request: ModelRequest) -> LanguageModel:
    """Build the model after a first, free request (its list of models).

    Raises ModelUnavailable for an invalid address, an unreachable server, or a missing or rejected key.
    """
    model = _model(request)
    model.greet()
    return model


def describe(request: ModelRequest) -> Mapping[str, str]:
    """Return what the server reports about the model, without costs. Raises like ``build``."""
    return _model(request).describe()


def address(given: str) -> str:
    """Normalize a base URL. Raises ModelUnavailable if it is not a plain http(s) address."""
    url = (given or PUBLIC).rstrip("/")
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", url):
        shown = re.sub(r"//[^/]*@", "//", given).partition("?")[0]  # that part may be a password
        raise ModelUnavailable(
            f"{shown!r} is not a base URL: it must have a scheme, a host and a path, and no credentials",
            hint="for example --base-url http://127.0.0.1:8000/v1; put the key into the environment",
        )
    return url


def _model(request: ModelRequest) -> ApiModel:
    from ke_plugin_openai.model import ApiModel  # noqa: PLC0415  imports the HTTP library

    return ApiModel.open(request, address(request.base_url))


openai_spec = ModelSpec(
    name="openai",
    summary="a model behind any OpenAI-compatible server: --base-url, and --chat for its chat endpoint",
    build=build,
    remote=True,
    describe=describe,
)
