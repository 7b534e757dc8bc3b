"""``ke serve --backend vllm``: from the options to the running server."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

from ke_core.app import App, count_noun, err, literal, progress
from ke_plugin_serve.forwarding import Upstream
from ke_plugin_serve.limits import Limits
from ke_plugin_serve.rendering import served_name
from ke_plugin_serve.server import Address, run
from ke_plugin_serve.startup import ServeRequest
from ke_plugin_serve.vllm_app import VllmRoutes
from ke_plugin_serve.vllm_startup import VllmRequest, opened_vllm


def serve_vllm(app: App, given: dict[str, Any], request: ServeRequest, address: Address) -> bool:
    """Forward requests to a vLLM server. Return whether an edit is still being computed at the end."""
    url = given["upstream"].rstrip("/").removesuffix("/v1")
    wanted = VllmRequest(serve=request, url=url, folder=given["adapter_dir"], efficacy=given["min_efficacy"])
    console = err()

    def say(line: str) -> None:
        console.print(literal(line), soft_wrap=True)

    with ExitStack() as stack:
        with progress(console) as shown:  # progress of the start; requests are not reported
            served = stack.enter_context(opened_vllm(wanted, app.catalog, shown))
        how = request.model.how
        routes = VllmRoutes(
            served,
            given["name"] or served_name(request.model.reference),
            Limits(concurrent=given["max_requests"]),
            Upstream(url=url, key=os.environ.get(how.api_key_env, "").strip(), timeout=how.timeout),
            say,
        )

        def listening(shown_url: str, _server: object) -> None:
            changes = f"changes are saved to {served.state.path}" if served.state else "changes are not saved"
            say(f"serving {url} with {served.spec.name}, {count_noun(len(served.bank), 'edit')}; {changes}")
            for line in served.notices:
                say(line)
            guard = "with a token" if address.token else "without a token"
            say(f"{routes.name} at {shown_url}/v1, {guard}; Ctrl-C stops it")

        try:
            run(routes.app(address.token), address, routes.limits, listening)
        finally:
            routes.thread.close()
        say(f"stopped; forwarded {count_noun(routes.forwarded, 'request')}")
    return routes.thread.busy
