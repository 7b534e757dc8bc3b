"""Run uvicorn: socket, signals and shutdown."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from attrs import field, frozen
from starlette.applications import Starlette

from ke_core.plugin import BadConfig, KEError
from ke_plugin_serve.app import Routes
from ke_plugin_serve.application import build_app
from ke_plugin_serve.batcher import Batcher
from ke_plugin_serve.connections import BACKLOG, connection_class
from ke_plugin_serve.limits import Limits
from ke_plugin_serve.rendering import ChatFormat
from ke_plugin_serve.startup import ServedModel
from ke_plugin_serve.wire import is_loopback

GRACE = 30  # seconds for pending answers at shutdown
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@frozen(kw_only=True)
class Address:
    """Where to listen. ``port`` 0 selects a free one. An empty ``token`` disables authentication."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = field(default="", repr=False)

    def check(self) -> None:
        """Raise BadConfig for a public address without a token."""
        if not self.token and not is_loopback(self.host):
            raise BadConfig(
                f"{self.host} can be reached from other machines, and anybody there could change the edits",
                hint="set KE_SERVE_TOKEN to a long random text, or omit --host",
            )

    def check_free(self) -> None:
        """Raise KEError if the port is in use."""
        _bound(self).close()


@frozen(kw_only=True)
class ShutdownReport:
    """The state at the end. ``busy``: the model's thread is still working for a client that has disconnected."""

    questions: int
    batches: int
    busy: bool


class HttpServer(uvicorn.Server):
    """uvicorn's server. It does not raise the signal again that ended it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM end the server gracefully; a second SIGINT does not wait."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ending(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, ending) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    served: ServedModel,
    settings: ChatFormat,
    address: Address,
    limits: Limits,
    *,
    window: float,
    listening: Callable[[str, HttpServer], object],
) -> ShutdownReport:
    """Answer until SIGINT or SIGTERM. ``listening`` is called with the URL once the socket is open.

    ``window``: seconds that a question waits for others. Raises BadConfig for a public address without a token, KEError
    if the port is in use.
    """
    address.check()
    batcher = Batcher(
        served.session.engine,
        served.session.model,
        served.edited,
        lambda: served.bank.edits if served.own_edits else (),
        window=window,
        most=limits.concurrent,
    )
    routes = Routes(served, settings, limits, batcher).routes()
    try:
        run(build_app(routes, address.token), address, limits, listening)
    finally:
        batcher.thread.close()
    return ShutdownReport(questions=batcher.questions, batches=batcher.batches, busy=batcher.thread.busy)


def run(app: Starlette, address: Address, limits: Limits, listening: Callable[[str, HttpServer], object]) -> None:
    """Run ``app`` until SIGINT or SIGTERM. ``listening`` is called with the URL once the socket is open.

    Raises KEError if the port is in use.
    """
    config = uvicorn.Config(
        app,
        http=connection_class(limits.concurrent),
        backlog=BACKLOG,
        lifespan="on",
        log_config=None,
        access_log=False,  # requests are not logged
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        ws="none",
    )
    with _bound(address) as listener:
        host, port = listener.getsockname()[:2]
        server = HttpServer(config)
        listening(f"http://{f'[{host}]' if ':' in host else host}:{port}", server)
        server.run(sockets=[listener])


def _bound(address: Address) -> socket.socket:
    try:
        ((family, kind, protocol, _name, where), *_others) = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
            listener.listen(BACKLOG)  # from here on a client is heard, if only once the loop runs
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise KEError(
            f"cannot listen on {address.host}:{address.port}: {(error.strerror or str(error)).lower()}",
            hint="use another one with --port",
        ) from error
    return listener
