"""Limits: how much a client may send, how often, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from caveat._internal.params import check_params, count, positive

__all__ = ["Limits"]


@final
@dataclass(frozen=True)
class Limits:
    """What a service accepts.

    Parameters
    ----------
    body_bytes
        Size of one body, and of its arrays once unpacked; more is refused with status 413.
    json_bytes
        Size of a JSON body; more is refused with status 413. JSON takes 30 times its size to read, and meanwhile the
        service answers nobody else.
    reading_bytes
        Size of all bodies in memory together; beyond it requests are refused with status 429.
    rows
        Rows of one request; more are refused with status 413. An answer takes far more memory than a narrow row.
    body_seconds
        Time for a body to arrive; a slower client is refused with status 408.
    header_seconds
        Time for the first line and the headers of a request; the connection of a slower client is closed.
    answer_seconds
        Time for a client to take its answer; the connection of a slower client is closed.
    connections
        Open connections; beyond it only health is answered, everything else gets status 503.
    rate
        Requests a second of one key, or of all clients where there is no key; more are refused with status 429. None:
        no limit.

    Examples
    --------
    >>> Limits(body_seconds=2.5).connections
    1000
    """

    body_bytes: int = count(32 * 2**20)
    json_bytes: int = count(8 * 2**20)
    reading_bytes: int = count(256 * 2**20)
    rows: int = count(100_000)
    body_seconds: float = positive(10.0)
    header_seconds: float = positive(10.0)
    answer_seconds: float = positive(60.0)
    connections: int = count(1000)
    rate: float | None = positive(None)

    def __post_init__(self) -> None:
        check_params(self)
