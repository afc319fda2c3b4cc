"""Gate: what every request passes before its handler: the key, the size and pace of its body, headers, log and metrics.

Plain ASGI: a wrapper in a framework's own style costs more than a one-row verdict.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, final

import orjson

from caveat.serve.metrics import Requests
from caveat.serve.pages import PAGES
from caveat.serve.problems import Problem
from caveat.serve.settings import Limits

__all__ = ["Body", "Gate"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN = frozenset({*PAGES, "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"})
_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
_log = logging.getLogger("caveat.serve")


@final
class Gate:
    """An ASGI application around another one.

    Parameters
    ----------
    app
        The application.
    key
        Bearer key that clients must send; None: all may ask.
    requests
        Counts of requests by path and status.
    """

    def __init__(self, app: Application, *, key: str | None, requests: Requests) -> None:
        self.app, self.requests = app, requests
        self._key = None if key is None else key.encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def answered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            if self._refused(scope):
                await send_problem(answered, _WRONG_KEY)
            else:
                await self.app(scope, receive, answered)
        finally:
            seconds = time.perf_counter() - start
            route = scope.get("route")
            path = getattr(route, "path", "other")  # the pattern: names and ids of clients would grow without bound
            self.requests.add(path, status, seconds)
            _log.log(logging.DEBUG if path in OPEN else logging.INFO, "%s %s %d %.1f ms", scope["method"], path, status,
                     1000 * seconds)  # fmt: skip

    def _refused(self, scope: Message) -> bool:
        if self._key is None or scope["path"] in OPEN:
            return False
        sent = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = sent.partition(b" ")
        return not (scheme.lower() == b"bearer" and hmac.compare_digest(key.strip(), self._key))


_WRONG_KEY = Problem(
    401, "this service needs its key, as the header Authorization: Bearer KEY.", headers={"WWW-Authenticate": "Bearer"}
)


async def send_problem(send: Send, problem: Problem) -> None:
    """Answer with a status and one sentence, and close the connection: the rest of a body may still be on its way."""
    body = orjson.dumps({"error": str(problem)})
    headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
                (b"connection", b"close")]  # fmt: skip
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@final
class Body:
    """Reads bodies within the limits; one object for the whole service, so that it knows what all of them take."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.held = limits, 0

    async def read(self, headers: Any, receive: Receive) -> bytes:
        """The body of a request. The caller calls ``release(len(body))`` when it is done with it."""
        limits = self.limits
        announced = headers.get("content-length", "")
        if announced.isdigit() and int(announced) > limits.body_bytes:
            raise self._too_large()
        if headers.get("content-encoding", "identity") != "identity":
            raise Problem(415, "the body must not be compressed: content-encoding is not supported.")
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem(400, "the client left before the body was complete.")
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    self.held += len(chunk)
                    if size > limits.body_bytes:
                        raise self._too_large()
                    if self.held > limits.reading_bytes:
                        raise Problem(429, "the bodies of all requests together are too large. Try again in a second.",
                                      headers={"Retry-After": "1"})  # fmt: skip
                    chunks.append(chunk)
                    if not message.get("more_body", False):
                        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        except TimeoutError:
            self.release(size)
            raise Problem(408, f"the body must arrive within {limits.body_seconds:g} seconds.") from None
        except BaseException:
            self.release(size)
            raise

    def release(self, size: int) -> None:
        """A body of this size is no longer held."""
        self.held -= size

    def _too_large(self) -> Problem:
        return Problem(413, f"the body must have at most {self.limits.body_bytes} bytes. Send fewer rows at a time.")
