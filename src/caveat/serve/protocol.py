"""HTTP/1.1 on a connection, within limits of time and number; uvicorn sets neither for headers and slow readers."""

from __future__ import annotations

import asyncio
import http
import sys
from collections.abc import Callable
from typing import Any, final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from caveat.serve.gate import SECURITY_HEADERS
from caveat.serve.problems import Problem
from caveat.serve.settings import Limits

__all__ = ["http_protocol"]

_SPARE = 50  # connections beyond the limit on which health is still answered


def http_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol of a service with these limits, as a class that uvicorn makes an object of for each connection."""
    return type("LimitedProtocol", (_Protocol,), {"limits": limits})


@final
class _Transport:
    """A connection whose ``close`` waits until the client has sent the rest of its request, which is thrown away.

    A system that closes a connection with unread data resets it, and the client then never sees why it was refused.
    """

    def __init__(self, transport: Any, unread: Callable[[], bool]) -> None:
        self._transport, self._unread = transport, unread
        self.write = transport.write
        self.lingers = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or bool(self._transport.is_closing())

    def close(self) -> None:
        if self.lingers or self._transport.is_closing() or not self._unread():
            self._transport.close()
            return
        self.lingers = True
        try:
            self._transport.write_eof()
        except OSError:  # the client has left
            self._transport.abort()
            return
        self._transport.resume_reading()


class _Protocol(H11Protocol):
    transport: Any
    limits: Limits
    ended = False  # the client has closed its side
    deadline: asyncio.TimerHandle | None = None  # of headers, or of the rest of a refused body
    reader: asyncio.TimerHandle | None = None  # time for the client to take its answer

    # -- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        super().connection_made(_Transport(transport, self._unread))  # type: ignore[arg-type]
        if len(self.connections) > self.limits.connections + _SPARE:
            self.transport.abort()
            return
        if len(self.connections) > self.limits.connections:
            self.app_state = {"full": True}  # the gate answers health alone
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
        self._watch()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """A client may close its side when it has asked; it still gets its answer."""
        cycle = self.cycle
        self.ended = True
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def on_response_complete(self) -> None:
        super().on_response_complete()
        waiting = self.cycle.response_complete  # else the next request came with this one and is being answered
        if waiting and self.ended:
            self.transport.close()
        if self.transport.lingers:
            self._watch()
        else:
            self._stop()  # uvicorn's own timer closes idle connections
        if self.reader is None and self.transport.get_write_buffer_size():
            self.reader = self.loop.call_later(self.limits.answer_seconds, self._drop_slow_reader)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        if self.reader is not None:
            self.reader.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Called when the service stops."""
        if self.transport.is_closing():
            self.transport.abort()
        else:
            super().shutdown()

    # -- limits -------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Run the clock unless a request is being answered, whose body has a limit of its own."""
        if self.cycle is not None and not self.cycle.response_complete and not self.transport.is_closing():
            self._stop()
        elif self.deadline is None:
            self.deadline = self.loop.call_later(self.limits.header_seconds, self.transport.abort)

    def _stop(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _drop_slow_reader(self) -> None:
        self.reader = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _unread(self) -> bool:
        """Whether the client may still be sending a request that will not be read."""
        return not self.ended and self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    # -- requests that are not HTTP -----------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, with the same headers and form as every other refusal."""
        status = getattr(sys.exc_info()[1], "error_status_hint", 400)
        if self.cycle is not None and not self.cycle.response_complete:  # its handler need not answer any more
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = Problem(status, "this is not a valid HTTP/1.1 request, or its headers are too large.").body()
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
                       *SECURITY_HEADERS, (b"connection", b"close")]  # fmt: skip
            reason = http.HTTPStatus(status).phrase.encode()
            for event in (h11.Response(status_code=status, headers=headers, reason=reason), h11.Data(data=body),
                          h11.EndOfMessage()):  # fmt: skip
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered as if it had not asked for another protocol."""
