"""Problem: a request that cannot be answered, as a status and one sentence."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from caveat.errors import CaveatError

__all__ = ["Problem"]


class Problem(CaveatError):
    """Why a request is refused.

    Parameters
    ----------
    status
        HTTP status: 400 malformed, 401 key, 403 other key, 404 unknown, 408 slow, 409 conflict, 413 large, 414 long
        address, 415 media type, 421 other host, 422 content, 429 busy, 503 not ready.
    sentence
        What must hold, what came, and the remedy.
    headers
        Headers of the answer, such as ``Retry-After``.

    Examples
    --------
    >>> problem = Problem(429, "the service is busy. Try again.", headers={"Retry-After": "1"})
    >>> problem.status, str(problem)
    (429, 'the service is busy. Try again.')
    >>> problem.body()
    b'{"error":"the service is busy. Try again."}'
    """

    def __init__(self, status: int, sentence: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, dict(headers or {})

    def body(self) -> bytes:
        """The answer as JSON."""
        return orjson.dumps({"error": str(self)})
