"""Running the service: uvicorn in one process, with a time limit for headers and an orderly end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from caveat.errors import InputError
from caveat.serve.gate import Application
from caveat.serve.settings import Limits

__all__ = ["run"]

_GRACE = 10  # seconds for requests that are being answered when the service stops


def run(
    app: Application, *, host: str = "127.0.0.1", port: int = 8080, limits: Limits | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:  # fmt: skip
    """Serve until SIGTERM or SIGINT; requests that are being answered are finished first.

    Parameters
    ----------
    app
        What ``create_app`` gives.
    host, port
        Where to listen; port 0 takes a free one.
    limits
        Limits of connections and headers.
    ready
        Called with the address once the service listens.
    """
    limits = limits or Limits()
    listening = _listening(host, port)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, http=_protocol(limits.header_seconds), ws="none", lifespan="on",
        limit_concurrency=limits.connections, timeout_graceful_shutdown=_GRACE, server_header=False, loop="asyncio", proxy_headers=False,
    )  # fmt: skip
    server = _Server(config, ready)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # the second time; the first is handled in order
        pass
    finally:
        listening.close()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small packets at once (TCP_NODELAY) only where the protocol is named; otherwise each answer of two
    # writes waits 40 ms for the client's acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{host}:{port} cannot be used ({reason}). Choose another: --port 0 takes a free one."
        ) from None
    return listening


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None] | None) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None and sockets and self.started:
            host, port = sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")


def _protocol(seconds: float) -> type[asyncio.Protocol]:
    """HTTP that closes a connection whose request line and headers do not arrive in time; uvicorn waits for ever."""

    class Protocol(H11Protocol):
        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._stop()  # uvicorn's own timer closes idle connections

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _watch(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()  # headers are complete; the body has a limit of its own
            elif self.timer is None:
                self.timer = self.loop.call_later(seconds, self.transport.close)

        def _stop(self) -> None:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

    return Protocol
