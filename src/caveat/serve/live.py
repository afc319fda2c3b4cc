"""What the page of the service shows: counts, promises, drift evidence, p-values, live errors, the last verdicts.

Rows are taken in batch by batch, in memory that does not grow; any batches of the same rows show the same page.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

import caveat
from caveat._internal.checks import same_length
from caveat.errors import InputError
from caveat.guard import Guard, Verdicts, Watch
from caveat.guard.replay import STREAMS, p_histogram, share_small
from caveat.guard.verdicts import KINDS
from caveat.serve.paths import PeakPath, SharePath

__all__ = ["LiveView"]

MINUTES = 60  # of verdict counts
RECENT = 1000  # rows in the histogram of p-values, and behind the share of small ones
SHOWN = 20  # last verdicts
_FORMAT = 1  # of the state


@final
class LiveView:
    """The page of one guard and its watch, as data. One thread at a time.

    Parameters
    ----------
    guard
        A calibrated guard.
    watch
        Its watch. The caller updates it with the same verdicts and labels; this reads its alarms.
    started_at
        When the service started, in seconds since 1970.
    name
        How the page calls the guard.
    fields
        Field that a client must send -> its width, or None where any will do.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = caveat.Outputs(logits=rng.normal(size=(700, 3)))
    >>> guard = Guard("energy", sets=None).calibrate(rows[:500], date="2026-11-02")
    >>> watch, verdicts = guard.watch(), guard(rows[500:])
    >>> view = LiveView(guard, watch, started_at=0.0, name="energy")
    >>> view.add(60.0, 0, [f"row-{i}" for i in range(200)], verdicts, watch.update(verdicts))
    >>> page = view.to_dict(now=61.0)
    >>> page["rows"], page["counts"] == verdicts.counts, page["minutes"]["start"], page["last"][0]["id"]
    (200, True, '1970-01-01T00:00:00Z', 'row-199')
    """

    def __init__(
        self,
        guard: Guard,
        watch: Watch,
        *,
        started_at: float,
        name: str = "guard",
        fields: Mapping[str, int | None] | None = None,
    ) -> None:
        self.guard, self.watch, self.started_at = guard, watch, started_at
        self.name, self.fields = name, dict(fields or {})
        self.counts = dict.fromkeys(KINDS, 0)
        self._minutes: dict[int, list[int]] = {}  # minute since 1970 -> verdicts of each kind
        self._paths = {stream: PeakPath() for stream in watch.alarms}
        self._recent: dict[str, deque[float]] = {stream: deque(maxlen=RECENT) for stream in watch.alarms}
        # The level of the alarm: an interval that lies above the promise has raised it.
        self._errors, self._misses = SharePath(alpha=watch.alpha), SharePath(alpha=watch.alpha)
        self._worst = SharePath(alpha=watch.alpha)  # errors, if all answers without a label were wrong
        self._batches: deque[tuple[list[float], list[str], Verdicts]] = deque(maxlen=SHOWN)
        self._restored: list[dict[str, Any]] = []  # last verdicts before a restart

    # -- what happens --------------------------------------------------------------------------------------------------

    def add(
        self,
        at: float | NDArray[np.float64],
        first_row: int,
        ids: Sequence[str],
        verdicts: Verdicts,
        evidence: Mapping[str, NDArray[np.float64]],
    ) -> None:
        """Take in one batch.

        Parameters
        ----------
        at
            When it was answered, in seconds since 1970; an array says it of each row.
        first_row
            Rows of the stream before this batch.
        ids
            Id of each verdict.
        verdicts
            What the guard says about the rows.
        evidence
            What ``watch.update(verdicts)`` returned.
        """
        same_length(ids=ids, verdicts=verdicts)
        if not len(verdicts):
            return
        times = np.broadcast_to(at, len(verdicts))
        for minute, kinds in _by_minute(times, verdicts.kind):
            counts = self._minute(minute)
            for place, kind in enumerate(KINDS):
                self.counts[kind] += kinds[kind]
                counts[place] += kinds[kind]
        for stream, values in self.watch.values(verdicts).items():
            self._paths[stream].add(first_row, evidence[stream])
            self._recent[stream].extend(values[-RECENT:].tolist())
        self._batches.append((times[-SHOWN:].tolist(), list(ids[-SHOWN:]), _last_rows(verdicts)))

    def _minute(self, minute: int) -> list[int]:
        counts = self._minutes.get(minute)
        if counts is None:
            self._minutes = {m: c for m, c in self._minutes.items() if minute - MINUTES < m < minute + MINUTES}
            counts = self._minutes[minute] = [0] * len(KINDS)
        return counts

    def add_labels(
        self, wrong: NDArray[np.bool_], covered: NDArray[np.bool_] | None = None, known: NDArray[np.bool_] | None = None
    ) -> None:
        """Take in labels that came later.

        Parameters
        ----------
        wrong
            Of the accepted rows with a label: whether the answer was wrong. May be empty.
        covered
            Of all rows with a label: whether the prediction set holds it. None without sets.
        known
            Of the rows of ``wrong``: whether the label is known; None: of all.
        """
        self._errors.add(np.asarray(wrong, dtype=np.bool_))
        self._worst.add(wrong if known is None else wrong | ~known)
        if covered is not None:
            self._misses.add(~np.asarray(covered, dtype=np.bool_))

    # -- what the page shows -------------------------------------------------------------------------------------------

    def to_dict(self, *, now: float | None = None) -> dict[str, Any]:
        """The page as plain values, for JSON; what is not finite is None. ``now``: default the clock."""
        at = time.time() if now is None else now
        guard, alarmed_at = self.guard, self.watch.alarmed_at
        return {
            "name": self.name,
            "now": _time(at),
            "started_at": _time(self.started_at),
            "calibrated_at": guard.calibrated_at_,
            "fingerprint": self.watch.fingerprint,
            "version": caveat.__version__,
            "fields": dict(self.fields),
            "rows": sum(self.counts.values()),
            "counts": dict(self.counts),
            "minutes": self._minute_counts(at),
            "promises": [promise.to_dict() for promise in guard.promises],
            "p_values": self._p_values(),
            "drift": {"alpha": self.watch.alpha, "streams": [self._stream(name) for name in self.watch.alarms]},
            "live": {"error": self._live_error(alarmed_at.get("risk")), "coverage": self._live_coverage()},
            "last": self._last(),
            "alarms": list(self.watch.alarmed),
        }

    def _minute_counts(self, now: float) -> dict[str, Any]:
        last = int(now // 60)
        first = max(last - MINUTES + 1, min([int(self.started_at // 60), *self._minutes]))
        counts = [self._minutes.get(minute, [0] * len(KINDS)) for minute in range(first, last + 1)]
        return {"start": _time(60 * min(first, last), digits="seconds")} | {
            kind: [minute[place] for minute in counts] for place, kind in enumerate(KINDS)
        }

    def _p_values(self) -> dict[str, Any]:
        scores = np.array(self._recent["score"], dtype=np.float64)
        bars = p_histogram(self.guard.calibration_scores_, scores, seed=int(self.watch.fingerprint[:12], 16))
        return {"n": scores.size, "level": bars.level} | {
            name: getattr(bars, name).tolist() for name in ("edges", "counts", "least", "most")
        }

    def _stream(self, name: str) -> dict[str, Any]:
        alarm = self.watch.alarms[name]
        recent = np.array(self._recent[name], dtype=np.float64)
        rows, evidence = self._paths[name].points()
        return {
            "name": name,
            "label": STREAMS[name],
            "now": _finite(alarm.log10_e),
            "highest": _finite(alarm.highest),
            "line": alarm.line,
            "alarmed_at": alarm.alarmed_at,
            "share_small": _finite(share_small(alarm.urn.calibration, recent, seed=alarm.urn.seed)),
            "rows": rows,
            "log10_e": [_finite(value) for value in evidence],
        }

    def _live_error(self, alarmed_at: int | None) -> dict[str, Any] | None:
        if not self._errors.n:
            return None
        labels, errors, lower, upper = self._errors.points()
        missing, risk = self._worst.hits - self._errors.hits, self.watch.risk
        if missing:
            upper = self._worst.points()[3]
        return {
            "labels": labels[-1] - missing,
            "errors": errors[-1],
            "missing": missing,
            "assumption": None if risk is None else risk.assumption,
            **self._share("errors among the accepted", labels, errors, lower, upper),
            "alarmed_at": alarmed_at,
        }

    def _live_coverage(self) -> dict[str, Any] | None:
        if not self._misses.n:
            return None
        labels, misses, lower, upper = self._misses.points()
        covered = [n - k for n, k in zip(labels, misses, strict=True)]
        ends = [1 - end for end in upper], [1 - end for end in lower]
        return {"labels": labels[-1], "covered": covered[-1], **self._share("coverage", labels, covered, *ends)}

    def _share(
        self, what: str, labels: list[int], hits: list[int], lower: list[float], upper: list[float]
    ) -> dict[str, Any]:
        rate = [k / n for n, k in zip(labels, hits, strict=True)]
        promised = next((p.bound for p in self.guard.promises if p.what == what and p.holds), None)
        return {
            "rate": rate[-1],
            "lower": lower[-1],
            "upper": upper[-1],
            "level": 1 - self.watch.alpha,
            "promised": promised,
            "path": {"labels": labels, "rate": rate, "lower": lower, "upper": upper},
        }

    def _last(self) -> list[dict[str, Any]]:
        """The last verdicts, newest first, with reasons."""
        rows = (
            {"at": _time(times[i]), "id": ids[i], **_row(verdicts, i)}
            for times, ids, verdicts in reversed(self._batches)
            for i in reversed(range(len(ids)))
        )
        newest = list(islice(rows, SHOWN))
        return newest + self._restored[: SHOWN - len(newest)]

    # -- state ---------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What changes as rows and labels arrive, as plain values for JSON."""
        return {
            "format": _FORMAT,
            "guard": self.watch.fingerprint,
            "counts": dict(self.counts),
            "minutes": [[minute, *counts] for minute, counts in self._minutes.items()],
            "paths": {name: path.state() for name, path in self._paths.items()},
            # JSON has no infinity, and a score may be infinite
            "recent": {name: [value if math.isfinite(value) else str(value) for value in values]
                       for name, values in self._recent.items()},
            "errors": self._errors.state(),
            "worst": self._worst.state(),
            "misses": self._misses.state(),
            "last": self._last(),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Go on from a ``state`` of the same guard."""
        if state.get("format") != _FORMAT or state.get("guard") != self.watch.fingerprint:
            raise InputError("the state of the live page belongs to another guard or version. Start a new page.")
        try:
            self.counts = {kind: int(state["counts"][kind]) for kind in KINDS}
            self._minutes = {int(minute): [int(n) for n in counts] for minute, *counts in state["minutes"]}
            for name, path in self._paths.items():
                path.restore(state["paths"][name])
                self._recent[name] = deque(map(float, state["recent"][name]), maxlen=RECENT)
            self._errors.restore(state["errors"])
            self._worst.restore(state["worst"])
            self._misses.restore(state["misses"])
            self._restored = list(state["last"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the state of the live page is damaged ({type(error).__name__}: {error}). "
                             "Start a new page.") from None  # fmt: skip
        self._batches.clear()
        return self


def _by_minute(times: NDArray[np.float64], kind: NDArray[np.str_]) -> Iterator[tuple[int, Counter[str]]]:
    """Minutes since 1970, and how many rows of each were of each kind."""
    minutes = times // 60
    if minutes.min() == minutes.max():
        yield int(minutes[0]), _counted(kind)
        return
    for minute in np.unique(minutes).tolist():
        yield int(minute), _counted(kind[minutes == minute])


def _counted(kind: NDArray[np.str_]) -> Counter[str]:
    if kind.size <= SHOWN:
        return Counter(kind.tolist())
    return Counter({name: int((kind == name).sum()) for name in KINDS})


def _last_rows(verdicts: Verdicts) -> Verdicts:
    """The last rows alone, which joining copies, so that a large batch can be forgotten."""
    return verdicts if len(verdicts) <= SHOWN else Verdicts.joined([verdicts[-SHOWN:-1], verdicts[-1:]])


def _row(verdicts: Verdicts, i: int) -> dict[str, Any]:
    names = {}
    if verdicts.class_names is not None:
        answers, sets = verdicts.predictions, verdicts.sets
        names = {"prediction_name": None if answers is None else verdicts.class_names[answers[i]],
                 "set_names": None if sets is None else verdicts.names_of(sets.labels(i).tolist())}  # fmt: skip
    return names | {
        "kind": str(verdicts.kind[i]),
        "prediction": None if verdicts.predictions is None else int(verdicts.predictions[i]),
        "p_value": _finite(float(verdicts.p_values[i])),
        "set": None if verdicts.sets is None else verdicts.sets.labels(i).tolist(),
        "reason": verdicts.reason(i),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _time(seconds: float, *, digits: str = "milliseconds") -> str:
    """ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=digits).replace("+00:00", "Z")
