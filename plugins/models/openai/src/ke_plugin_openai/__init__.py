"""Model source ``openai``: models behind an OpenAI-compatible server. Imports no torch, and the HTTP library only on
use.
"""

from __future__ import annotations

from collections.abc import Iterable

from ke_core.plugin import HealthFinding, ModelSpec, hookimpl


@hookimpl
def ke_models() -> list[ModelSpec]:
    """Register ``openai:ID``."""
    from ke_plugin_openai.spec import openai_spec  # noqa: PLC0415  only a command that needs models reads it

    return [openai_spec]


@hookimpl
def ke_doctor(base_url: str) -> Iterable[HealthFinding]:
    """Check the server at ``base_url``, if one is given."""
    if not base_url:
        return []
    from ke_plugin_openai.health import check_server  # noqa: PLC0415  imports the HTTP library

    return [check_server(base_url)]
