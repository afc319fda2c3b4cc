"""Witness: the threads of a service that look at its trail: one verifies the records of earlier runs, one publishes.

Both read; neither makes an answer wait. What they find wrong ends the service's right to answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

from caveat._internal.params import check_params, count
from caveat.errors import CaveatError, StoreError
from caveat.serve.audit.heads import Head, Signer, head_of
from caveat.serve.audit.store import Damaged
from caveat.serve.audit.verify import verify_trail

if TYPE_CHECKING:
    from caveat.serve.trail import Trail

__all__ = ["Heads", "Witness"]

_LOOK_SECONDS, _RETRY_SECONDS = 0.2, 5.0
_log = logging.getLogger("caveat.serve")


@final
@dataclass(frozen=True)
class Heads:
    """Where the heads of a trail go.

    Parameters
    ----------
    publish
        Takes a head to its second place, as ``publisher`` makes it.
    place
        Its name, for the record of the start.
    every
        Records from one head to the next; one more at the start and at the stop.
    signer
        Signs them; None: they are not signed.
    """

    publish: Callable[[Head], None]
    place: str
    every: int = count(1000)
    signer: Signer | None = None

    def __post_init__(self) -> None:
        check_params(self)


@final
class Witness:
    """Looks at a trail from outside, as a reader.

    Parameters
    ----------
    trail
        The trail that a service writes.
    heads
        Where its heads go; None: nowhere.
    """

    def __init__(self, trail: Trail, heads: Heads | None) -> None:
        self.trail, self.heads = trail, heads
        self.verified: Literal["tail", "all"] = "tail" if trail.seq else "all"
        self.damage: Damaged | None = None
        self.published = 0  # records of the newest head that reached its place
        self.failure = ""  # why the newest did not
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def facts(self) -> dict[str, Any] | None:
        """Where the heads go, for the record of the start."""
        heads = self.heads
        return None if heads is None else {"place": heads.place, "every": heads.every,
                                           "key": None if heads.signer is None else heads.signer.public}  # fmt: skip

    def view(self) -> dict[str, Any]:
        """What the page says about it."""
        heads = None if self.heads is None else {"published": self.published, "failure": self.failure}
        return {"verified": self.verified, "heads": heads}

    def start(self) -> None:
        """Begin."""
        targets = [] if self.verified == "all" else [self._verify]
        targets += [] if self.heads is None else [self._publish]
        self._threads = [threading.Thread(target=target, name=target.__name__[1:], daemon=True) for target in targets]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Publish the last head, and end."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def verify(self) -> None:
        """Verify the whole chain; ``Damaged`` where it is not sound."""
        reader = self.trail.store.reader()
        try:
            result = verify_trail(reader, progress=self._tell)
        finally:
            reader.close()
        if not result.sound:
            raise Damaged(result.reason, seq=result.broken_at)
        self.verified = "all"

    def _tell(self, what: str, done: int, steps: int) -> None:
        if self._stopping.is_set():
            raise StoreError("the service stops.")

    def _verify(self) -> None:
        while self.verified != "all" and self.damage is None and not self._stopping.is_set():
            try:
                self.verify()
            except Damaged as damage:
                self.damage = damage
                _log.error("audit: %s", damage)
            except CaveatError as error:  # a connection that was lost: try again
                _log.warning("audit: the earlier records are not verified yet: %s", error)
                self._stopping.wait(_RETRY_SECONDS)

    def _publish(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            pause = _LOOK_SECONDS if self._publish_next() else _RETRY_SECONDS
        self._publish_next(last=True)

    def _publish_next(self, *, last: bool = False) -> bool:
        """Publish the newest head if it is time for one; whether that went well."""
        heads, folding = self.heads, self.trail.folding
        assert heads is not None
        if folding.tree.size - self.published < (1 if last or not self.published else heads.every):
            return True
        with self.trail.lock:
            head = head_of(self.trail.header, folding.tree, folding.rows)
        try:
            heads.publish(head if heads.signer is None else heads.signer.sign(head))
        except Exception as error:  # the next attempt takes a newer head
            if str(error) != self.failure:
                _log.error("audit: %s", error)
            self.failure = str(error)
            return False
        self.published, self.failure = head.records, ""
        return True
