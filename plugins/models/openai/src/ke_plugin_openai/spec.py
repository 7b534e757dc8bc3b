"""The model source ``openai``: light, so that the catalogue can name it without loading an HTTP library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from ke_core.plugin import LanguageModel, ModelRequest, ModelSpec, ModelUnavailable

if TYPE_CHECKING:
    from ke_plugin_openai.model import ApiModel

PUBLIC = "https://api.openai.com/v1"
"""Where requests go without ``--base-url``."""


@frozen(kw_only=True)
class OpenAIModelConfig:
    """How a server is asked is said by ``--base-url``, ``--chat`` and the like, in the ModelRequest."""


def build(request: ModelRequest) -> LanguageModel:
    """The model, once its server has answered a first, free request (its list of models).

    Raises ModelUnavailable for an address that is none, a server that is not there, a key that is missing or refused.
    """
    model = _model(request)
    model.greet()
    return model


def describe(request: ModelRequest) -> Mapping[str, str]:
    """What the server says about the model; nothing that costs anything is asked. Raises as ``build`` does."""
    return _model(request).describe()


def address(given: str) -> str:
    """A base URL in one form. Raises ModelUnavailable for what is no plain http(s) address."""
    url = (given or PUBLIC).rstrip("/")
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", url):
        shown = re.sub(r"//[^/]*@", "//", given).partition("?")[0]  # what stands there may be a password
        raise ModelUnavailable(
            f"{shown!r} is no base URL: a scheme, a host, a path, and nothing secret",
            hint="such as --base-url http://127.0.0.1:8000/v1; a key goes into the environment",
        )
    return url


def _model(request: ModelRequest) -> ApiModel:
    url = address(request.base_url)
    try:
        from ke_plugin_openai.model import ApiModel  # noqa: PLC0415  the HTTP library, an optional extra
    except ModuleNotFoundError as error:
        if error.name != "httpx2":
            raise
        raise ModelUnavailable(
            "models behind a server need httpx2, which is not installed", hint="pip install ke-plugin-openai"
        ) from error
    return ApiModel.open(request, url)


openai_spec = ModelSpec(
    name="openai",
    summary="a model behind any OpenAI-compatible server: --base-url, and --chat for its chat endpoint",
    config=OpenAIModelConfig,
    build=build,
    remote=True,
    describe=describe,
)
