"""Folding: watch and page as they follow from the records of an audit trail, however many are taken in at a time."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from types import MappingProxyType
from typing import Any, Self, final, overload

import numpy as np
from numpy.typing import NDArray

from caveat.drift import LabelQueue, RiskMonitor
from caveat.errors import CaveatError
from caveat.guard import Guard, Verdicts
from caveat.serve.audit.content import merged_verdicts
from caveat.serve.audit.merkle import Tree
from caveat.serve.audit.record import Record
from caveat.serve.audit.store import Damaged
from caveat.serve.live import LiveView

__all__ = ["P_EDGES", "Folding", "RowIds", "readable"]

P_EDGES = np.arange(1, 21) / 20  # upper ends, included, of the histogram of all p-values


@final
class RowIds(Sequence[str]):
    """Ids of consecutive verdicts, made when they are looked at.

    >>> list(RowIds("1f2e3d4c", 41, 2))
    ['1f2e3d4c-41', '1f2e3d4c-42']
    """

    def __init__(self, chain: str, first_row: int, n: int) -> None:
        self._chain, self._rows = chain, range(first_row, first_row + n)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return (f"{self._chain}-{row}" for row in self._rows)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [f"{self._chain}-{row}" for row in self._rows[i]]
        return f"{self._chain}-{self._rows[i]}"


@final
class Folding:
    """Watch, page and histogram of p-values of one chain. One thread at a time.

    Parameters
    ----------
    guard
        The guard whose verdicts are in the records.
    chain
        First part of the ids of the verdicts.
    alpha
        Allowed chance that a quiet stream ever raises a drift alarm.
    started_at
        When the service started, in seconds since 1970.
    name
        Name on the page.
    label_wait
        Further accepted answers after which a missing label counts at its worst, where labels count in the order of
        the answers; None: they count in the order in which they come.
    """

    def __init__(
        self, guard: Guard, *, chain: str, alpha: float, started_at: float = 0.0, name: str = "guard",
        label_wait: int | None = None,
    ) -> None:  # fmt: skip
        self.guard, self.chain = guard, chain
        self.watch = guard.watch(alpha=alpha)
        self._queue = None if label_wait is None else LabelQueue(wait=label_wait)
        if self._queue is not None and self.watch.risk is not None:
            self.watch.risk = RiskMonitor(risk=self.watch.risk.risk, alpha=alpha, selective=True)
        self.live = LiveView(guard, self.watch, started_at=started_at, name=name)
        self.rows, self.tree = 0, Tree()
        self.p_counts, self.p_sum = np.zeros(P_EDGES.size, dtype=np.int64), 0.0  # histogram of all p-values

    def take(self, records: Sequence[Record], verdicts: Mapping[int, Verdicts] = MappingProxyType({})) -> None:
        """Take in the next records; those of the service itself change nothing.

        Parameters
        ----------
        records
            The records.
        verdicts
            Number of a record -> the verdicts that its body says, bit for bit; the body of another one is read.
        """
        with readable(records):
            self._take(records, verdicts)
        for record in records:
            self.tree.add(record.digest)

    def _take(self, records: Sequence[Record], verdicts: Mapping[int, Verdicts]) -> None:
        for kind, group in groupby(records, key=lambda record: record.entry.kind):
            if kind == "verdicts":
                self._take_verdicts(list(group), verdicts)
            elif kind == "labels":
                for record in group:
                    self._take_labels(json.loads(record.entry.body))

    def _take_verdicts(self, records: Sequence[Record], said: Mapping[int, Verdicts]) -> None:
        if all(record.seq in said for record in records):
            verdicts = Verdicts.joined([said[record.seq] for record in records])
        else:
            verdicts = merged_verdicts(self.guard, [record.entry.body for record in records])
        self.p_counts += np.bincount(np.searchsorted(P_EDGES, verdicts.p_values), minlength=P_EDGES.size)
        # One after the other: numpy's sum of many groups them, and would depend on how many records came at a time.
        self.p_sum = float(np.cumsum(np.concatenate([[self.p_sum], verdicts.p_values]))[-1])
        evidence = self.watch.update(verdicts)
        at = np.repeat([_seconds(record.entry.at) for record in records], [record.entry.rows for record in records])
        first_row = records[0].entry.first_row
        self.live.add(at, first_row, RowIds(self.chain, first_row, len(verdicts)), verdicts, evidence)
        self.rows = first_row + len(verdicts)
        if self._queue is not None and verdicts.predictions is not None:
            self._queue.answered((first_row + np.flatnonzero(verdicts.kind == "accept")).tolist())
            self._count(*self._queue.release())

    def _take_labels(self, judged: Mapping[str, Sequence[Any]]) -> None:
        wrong, covered = _mask(judged["wrong"]), _mask(judged["covered"])
        has_label = np.ones_like(wrong)
        if self._queue is not None:
            labels = zip(judged["row"], judged["wrong"], strict=True)
            self._queue.labeled({row: label for row, label in labels if label is not None})
            wrong, has_label = self._queue.release()
        self._count(wrong, has_label, covered if covered.size else None)

    def _count(
        self, wrong: NDArray[np.bool_], has_label: NDArray[np.bool_], covered: NDArray[np.bool_] | None = None
    ) -> None:
        if self.watch.risk is not None and wrong.size:
            self.watch.labels(wrong, has_label)
        self.live.add_labels(wrong, covered, has_label)

    def facts(self) -> dict[str, Any]:
        """What follows from the records bit for bit: everything but the times on the page."""
        live = self.live.state()
        facts = {"rows": self.rows, "watch": _plain(self.watch.state()), "p_counts": self.p_counts.tolist()}
        queue = None if self._queue is None else self._queue.state()
        facts |= {"p_sum": self.p_sum, "tree": self.tree.state(), "queue": queue}
        return facts | {name: live[name] for name in ("counts", "errors", "worst", "misses")}

    def state(self) -> bytes:
        """What follows from the records so far, as JSON."""
        return json.dumps(self.facts() | {"live": self.live.state()}).encode()

    def restore(self, state: bytes) -> Self:
        """Go on from a ``state`` of the same guard."""
        try:
            content = json.loads(state)
            self.watch.restore(content["watch"])
            self.live.restore(content["live"])
            if self._queue is not None:
                self._queue.restore(content["queue"])
            self.p_counts, self.p_sum = np.array(content["p_counts"], dtype=np.int64), float(content["p_sum"])
            self.rows, self.tree = int(content["rows"]), Tree().restore(content["tree"])
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise Damaged(f"a kept state cannot be read ({type(error).__name__})") from None
        return self


@contextmanager
def readable(records: Sequence[Record]) -> Iterator[None]:
    """Content that cannot be read is damage; a chain that somebody made anew can hold anything."""
    try:
        yield
    except CaveatError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise Damaged(f"from there to record {records[-1].seq} is content that no service writes "
                      f"({type(error).__name__})", seq=records[0].seq) from None  # fmt: skip


def _seconds(at: str) -> float:
    return datetime.datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()


def _plain(state: Any) -> Any:
    """A state of ``Watch`` with lists in place of arrays."""
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [_plain(value) for value in state]
    return state.tolist() if isinstance(state, (np.ndarray, np.generic)) else state


def _mask(values: Sequence[bool | None]) -> NDArray[np.bool_]:
    return np.array([value for value in values if value is not None], dtype=np.bool_)
