"""Running the service: uvicorn in one process, with limits of time and an orderly end."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from caveat.errors import InputError
from caveat.serve.gate import Application
from caveat.serve.protocol import http_protocol
from caveat.serve.settings import Limits

__all__ = ["listen", "run"]

_GRACE = 10  # seconds for requests that are being answered when the service stops
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's malloc.h
_OTHER_FILES = 200  # open files that are not connections


def run(
    app: Application, *, host: str = "127.0.0.1", port: int = 8080, limits: Limits | None = None,
    ready: Callable[[str], None] | None = None, listening: socket.socket | None = None,
) -> None:  # fmt: skip
    """Serve until SIGTERM or SIGINT; requests that are being answered are finished first, at a second signal not.

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
    listening
        What ``listen`` gave, in place of host and port.
    """
    listening = listening or listen(host, port)
    # An answer of many rows makes many small objects, none of them in a cycle: looking for cycles after every few
    # hundred of them, among all objects of the imported packages, would cost as much as the verdicts. Closed
    # connections do leave cycles, a hundred objects a second under load, so the limit is not higher.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    _keep_freed_memory()
    limits = _within_open_files(limits or Limits())
    config = uvicorn.Config(
        app, log_config=None, access_log=False, http=http_protocol(limits), ws="none", lifespan="on",
        timeout_graceful_shutdown=_GRACE, server_header=False, proxy_headers=False, loop="asyncio",
    )  # fmt: skip
    try:
        _Server(config, ready).run(sockets=[listening])
    finally:
        listening.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small packets at once (TCP_NODELAY) only where the protocol is named; otherwise each answer of two
    # writes waits 40 ms for the client's acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)  # two sockets may be bound to one port, but only one can listen
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{host}:{port} cannot be used ({reason}). Choose another: --port 0 takes a free one."
        ) from None
    return listening


def _keep_freed_memory() -> None:
    """Let the C library reuse the memory of one request for the next one.

    It would give large arrays back to the system each time, and get them again page by page.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # other C libraries do not have it
        mallopt(_MMAP_THRESHOLD, 32 * 2**20)
        mallopt(_TRIM_THRESHOLD, 64 * 2**20)


def _within_open_files(limits: Limits) -> Limits:
    """Fewer connections where the system does not allow that many open files; its soft limit is raised first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return limits if soft >= wanted or soft < 0 else dataclasses.replace(
        limits, connections=max(1, soft - _OTHER_FILES))  # fmt: skip


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None] | None) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None and sockets and self.started:
            host, port = sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            yield
            self._captured_signals.clear()  # uvicorn would send them again: to stop in order is exit code 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal stops the service in order; the second, of either kind, waits for no client."""
        super().handle_exit(signal.SIGINT, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.force_exit:
            for task in self.server_state.tasks:
                task.cancel()
            await self.lifespan.shutdown()  # the audit trail is closed in order all the same
