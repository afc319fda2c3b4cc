"""Gate: what every request passes before its handler: the key, the size and pace of its body, headers, log and metrics.

Plain ASGI: a wrapper in a framework's own style costs more than a one-row verdict.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, final

from caveat.serve.keys import Keys, Pace
from caveat.serve.metrics import Requests
from caveat.serve.pages import PAGES
from caveat.serve.problems import Problem
from caveat.serve.settings import Limits

__all__ = ["FAILED", "OPEN", "SECURITY_HEADERS", "Body", "Gate"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN = frozenset({*PAGES, "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"})
SECURITY_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
_LOCAL = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_LONGEST_ADDRESS = 8192  # bytes of a path with its query
_log = logging.getLogger("caveat.serve")

_WRONG_KEY = Problem(
    401, "this service needs its key, as the header Authorization: Bearer KEY.", headers={"WWW-Authenticate": "Bearer"}
)
_OTHER_KEY = Problem(403, "this key is not for this address: asking, labels and administration have keys of their own.")
_TWO_LENGTHS = Problem(400, "a request must not have both headers Content-Length and Transfer-Encoding.")
_FULL = Problem(503, "too many connections are open. Try again in a second.", headers={"Retry-After": "1"})
_STOPPING = Problem(503, "the service stops. Try again in a second.", headers={"Retry-After": "1"})
FAILED = Problem(500, "the service failed; its log says how.")
_LONG = Problem(414, f"the address must have at most {_LONGEST_ADDRESS} bytes.")
_OTHER_HOST = Problem(
    421, "the header Host must be localhost or 127.0.0.1: this service has no key and answers this machine alone."
)


@final
class Gate:
    """An ASGI application around another one.

    Parameters
    ----------
    app
        The application.
    keys
        Keys of which clients must send one; none: all may ask.
    pace
        How often each key may ask.
    requests
        Counts of requests by path and status.
    direct
        Applications of single addresses, by method and path, for which ``app`` is not asked.
    local_only
        Refuse requests whose ``Host`` is not this machine. A page of another site can give its own name the address
        127.0.0.1 (DNS rebinding) and would then be allowed to ask; its requests still carry its name.
    """

    def __init__(
        self, app: Application, *, requests: Requests, keys: Keys, pace: Pace | None = None,
        direct: Mapping[tuple[str, str], Application] | None = None, local_only: bool = False,
    ) -> None:  # fmt: skip
        self.app, self.requests, self.keys, self.direct = app, requests, keys, direct or {}
        self._pace, self._local_only = pace or Pace(None), local_only

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, method = time.perf_counter(), 0, scope["method"]
        problem = self._refusal(scope)
        if method == "HEAD":  # the server leaves out the body
            scope = {**scope, "method": "GET"}

        async def answered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS]
                if status >= 400 and (problem is not None or _closes(status, scope)):
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        try:
            if problem is None:
                await self.direct.get((method, scope["path"]), self.app)(scope, receive, answered)
            else:
                await send_problem(answered, problem)
        except asyncio.CancelledError:  # the time for an orderly end is over
            if not status:
                await send_problem(answered, _STOPPING)
        except Exception:
            _log.exception("%s %s failed", _method(method), _path(scope))
            if not status:
                await send_problem(answered, FAILED)
        finally:
            seconds, path = time.perf_counter() - start, _path(scope)
            self.requests.add(path, status, seconds)
            level = logging.DEBUG if path in OPEN else logging.INFO
            if _log.isEnabledFor(level):
                facts = {"method": _method(method), "path": path, "status": status, "ms": round(1000 * seconds, 1),
                         "rows": scope.get("rows", 0)}  # fmt: skip
                _log.log(level, "%(method)s %(path)s %(status)d %(ms).1f ms, rows: %(rows)d", facts)

    def _refusal(self, scope: Message) -> Problem | None:
        """Why a request does not reach its handler."""
        path = scope["path"]
        if len(path) + len(scope["query_string"]) > _LONGEST_ADDRESS:
            return _LONG
        if _header(scope, b"transfer-encoding") and _header(scope, b"content-length"):
            return _TWO_LENGTHS  # a proxy in front may have believed the other one
        if self._local_only and not _is_local(_header(scope, b"host")):
            return _OTHER_HOST
        if path in OPEN:
            return None
        if scope.get("state", {}).get("full"):  # health is answered all the same
            return _FULL
        key = None
        if self.keys:
            key = self.keys.sent(_header(scope, b"authorization"))
            if key is None:
                return _WRONG_KEY
            if not self.keys.opens(key, path):
                return _OTHER_KEY
        if seconds := self._pace.wait(key):
            return Problem(429, "there are more requests a second than one key may send. Try again later.",
                           headers={"Retry-After": str(math.ceil(seconds))})  # fmt: skip
        return None


def _header(scope: Message, name: bytes) -> bytes:
    """The first header of this name; empty where there is none."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


def _is_local(host: bytes) -> bool:
    """Whether a ``Host`` names this machine. A browser always sends the header; HTTP/1.0 may do without.

    >>> [_is_local(host) for host in (b"", b"localhost:8080", b"[::1]:80", b"[::1]", b"localhost:80@evil.example")]
    [True, True, True, True, False]
    """
    return not host or _LOCAL.fullmatch(host) is not None


def _closes(status: int, scope: Message) -> bool:
    """Whether the rest of the body is not wanted: a client that waits for "100 Continue" may or may not send it."""
    return status in (401, 408, 413, 414) or bool(_header(scope, b"expect"))


def _method(method: str) -> str:
    """A method as it is logged: the names that clients make up could be as long as a page."""
    return method if method in _METHODS else "OTHER"


def _path(scope: Message) -> str:
    """The pattern of a route, such as ``/v2/models/{name}``: names and ids of clients would grow without bound."""
    return getattr(scope.get("route"), "path", "other")


async def send_problem(send: Send, problem: Problem) -> None:
    """Answer with a status and one sentence."""
    body = problem.body()
    headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
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
        is_json = "json" in headers.get("content-type", "").lower()
        largest = min(limits.body_bytes, limits.json_bytes) if is_json else limits.body_bytes
        announced = headers.get("content-length", "")
        if announced.isdigit() and int(announced) > largest:
            raise _too_large(largest, is_json)
        if headers.get("content-encoding", "identity").strip().lower() not in ("identity", ""):
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
                    if size > largest:
                        raise _too_large(largest, is_json)
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
        """Give back the bytes of a body that is done with."""
        self.held -= size


def _too_large(largest: int, is_json: bool) -> Problem:
    what, remedy = ("a JSON body", ", or npy or npz") if is_json else ("the body", "")
    return Problem(413, f"{what} must have at most {largest} bytes. Send fewer rows at a time{remedy}.")
