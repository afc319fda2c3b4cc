"""Prune: where the beginning of a chain may be deleted, and what followed from it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

from caveat.guard import Guard
from caveat.serve.audit.replay import base_state
from caveat.serve.audit.store import AuditStore, Cut
from caveat.serve.audit.verify import anchor, verified

__all__ = ["last_before", "plan_cut"]

Progress = Callable[[str, int, int], None]
_READ = 500  # records at a time


def last_before(store: AuditStore, before: str) -> int:
    """Number of the last record of the beginning that is older than ``before``; 0 where there is none.

    A clock that went back may have left older records behind newer ones: those stay.
    """
    until = 0
    with store.reading():
        for record in takewhile(lambda record: record.entry.at < before, store.records(anchor(store)[0])):
            until = record.seq
    return until


def plan_cut(guard: Guard, store: AuditStore, before: str, *, progress: Progress | None = None) -> Cut | None:
    """The cut after the last record that is older than ``before``, with the state that follows; None: nothing is.

    Parameters
    ----------
    guard
        The guard whose verdicts are in the records.
    store
        The audit trail. The records up to the cut are verified.
    before
        Time, UTC, as in the records.
    progress
        Called with what is done, the steps so far and all steps.
    """
    with store.reading():
        first, digest, rows = anchor(store)
        folding, until, last = base_state(guard, store), first, store.last()
        steps, pending = 0 if last is None else last.seq - first, []
        for record in verified(store, first, digest, rows):
            if record.entry.at >= before:
                break
            pending.append(record)
            until, digest, rows = record.seq, record.digest, rows + record.entry.rows
            if len(pending) >= _READ:
                folding.take(pending)
                pending.clear()
                if progress is not None:
                    progress("looking for old records", until - first, steps)
        folding.take(pending)
        return None if until == first else Cut(until, digest, rows, folding.state())
