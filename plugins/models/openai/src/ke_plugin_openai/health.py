"""Checks of a model server for ``ke doctor``."""

from __future__ import annotations

from ke_core.plugin import HealthFinding, KEError
from ke_plugin_openai.client import ApiClient
from ke_plugin_openai.faults import Transient
from ke_plugin_openai.spec import address

TIMEOUT = 5.0  # seconds that a server has to answer


def check_server(url: str) -> HealthFinding:
    """Request the server's list of models."""
    try:
        client = ApiClient.open(address(url), key_env="OPENAI_API_KEY", timeout=TIMEOUT, concurrency=1)
        listed = client.once("GET", "/models").get("data")
    except (Transient, KEError) as error:
        advice = getattr(error, "hint", "") or "start the server, or correct the base URL"
        return HealthFinding(area="server", what=str(error), state="wrong", advice=advice)
    names = [str(one.get("id")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return HealthFinding(area="server", what=f"{client.url} answers and lists {', '.join(names[:5]) or 'no model'}")
