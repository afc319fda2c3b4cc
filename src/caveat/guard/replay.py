r"""Replay: a file of outputs as a stream through a guard and its watch, and what it says about the promises.

The p-value histogram counts the ranks of the rows among the n calibration scores, equal scores in random order. For
rows that are exchangeable with the calibration rows the count X in a bar of k of the n + 1 ranks is beta-binomial,

$$ P(X = x) = \binom{m}{x} \frac{B(k + x,\ n + 1 - k + m - x)}{B(k,\ n + 1 - k)}, $$

which allows for the chance in both samples. All bars together stay in their bands with probability 1 - delta at least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_count, as_kind
from caveat._internal.classes import in_order
from caveat._internal.streams import stream
from caveat.drift.risk_monitor import confidence_sequence
from caveat.errors import InputError
from caveat.evaluation.judge import LEVEL, MARKS, rate_is_high
from caveat.guard.guard import Guard
from caveat.guard.verdicts import KINDS, Verdicts
from caveat.guard.watch import Watch
from caveat.metrics import coverage_verdict
from caveat.metrics.coverage import beta_binomial_region
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.results import Estimate, Promise, proportion_interval

__all__ = ["Evidence", "LiveError", "Measured", "PHistogram", "Replay", "p_histogram", "replay", "share_small"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Verdict = Literal["", "as chance allows", "above", "below"]
DELTA = 2 * LEVEL  # allowed failure of each interval and verdict of a replay, half on each side
SMALL = 0.05  # a small p-value: about this share of a quiet stream has one
BARS = 20  # of the p-value histogram; the first one is p <= 0.05
_DRAWN = 300  # stretches of a stream of which a figure shows the peaks
_INTERVALS = 120  # along the live error


@final
@dataclass(frozen=True)
class Measured:
    """A share that the guard bounds, as measured on the rows, and whether it is as chance allows.

    Parameters
    ----------
    what
        ``"false alarms"``, ``"errors among the accepted"`` or ``"coverage"``, as in the promise.
    share
        What was measured; None where no row counts (errors, if nothing was accepted).
    promise
        What was promised; None where nothing was asked for.
    verdict
        ``"as chance allows"``, ``"above"`` or ``"below"``; empty where nothing is promised.
    """

    what: str
    share: Estimate | None
    promise: Promise | None
    verdict: Verdict

    @property
    def sound(self) -> bool:
        """Whether it is as promised, or better."""
        return self.verdict != ("below" if self.what == "coverage" else "above")

    @property
    def mark(self) -> str:
        """✓ as promised or better, ! worse than chance allows, – not judged, because nothing is promised."""
        return MARKS["not judged"] if not self.verdict else "✓" if self.sound else "!"


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence (log10) for drift along one stream, at no more than about 600 of its rows: the peaks and the valleys."""

    rows: Counts
    log10_e: Floats
    now: float
    highest: float  # within these rows
    line: float
    alarmed_at: int | None  # row of the whole stream, earlier files included
    share_small: float  # of these rows: p <= 0.05 against the calibration rows


@final
@dataclass(frozen=True, eq=False)
class PHistogram:
    """Counts of p-values in bars, and what chance allows: all bars lie within with probability ``level`` at least."""

    edges: Floats
    counts: Counts
    least: Counts
    most: Counts
    level: float

    @property
    def outside(self) -> NDArray[np.bool_]:
        """Which bars chance does not allow."""
        return (self.counts < self.least) | (self.counts > self.most)


@final
@dataclass(frozen=True, eq=False)
class LiveError:
    """Error among the accepted so far, with an interval that holds at all times at once."""

    answers: Counts  # accepted rows with a label, earlier files included
    error: Floats
    lower: Floats
    upper: Floats
    level: float
    risk: float | None  # promised


@final
@dataclass(frozen=True, eq=False)
class Replay:
    """What a stream of rows showed: verdicts, promises next to what was measured, drift."""

    title: str
    guard: Guard
    n: int
    before: int  # rows that the watch had seen before these
    counts: dict[str, int]
    measured: tuple[Measured, ...]
    evidence: dict[str, Evidence]
    histogram: PHistogram
    live: LiveError | None
    mean_set_size: float | None
    alpha: float
    alarmed: tuple[str, ...]
    risk_alarmed_at: int | None  # accepted row with a label at which the promise was found broken

    def sentence(self) -> str:
        """The result in one sentence."""
        if not self.alarmed:
            return "Sound: no alarm."
        return f"Alarm: {', '.join(self.when(name) for name in self.alarmed)}."

    def when(self, name: str) -> str:
        """Which alarm rang at which row."""
        if name == "risk":
            return f"errors among the accepted at answer {self.risk_alarmed_at:,}"
        row = self.evidence[name].alarmed_at
        assert row is not None
        earlier = " (in an earlier file)" if row <= self.before else ""
        return f"{STREAMS[name]} at row {row:,}{earlier}"


STREAMS = {"score": "inputs", "class": "predicted classes", "confidence": "confidence"}


def replay(
    guard: Guard,
    outputs: Outputs,
    watch: Watch | None = None,
    *,
    batch: int = 256,
    title: str = "Check of a guard",
    progress: Callable[[str, int, int], None] | None = None,
) -> Replay:
    """Send rows through a guard and its watch in the order in which they stand, and measure what is promised.

    Parameters
    ----------
    guard
        A calibrated guard.
    outputs
        The stream, oldest row first. With labels, errors among the accepted and coverage are measured too.
    watch
        Goes on from what it has seen; default a new one. It is updated.
    batch
        Rows at a time; it changes no evidence.
    title
        Heading of the report.
    progress
        Called with what is done, the rows done and their number.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def draw(n, spread):
    ...     labels = rng.integers(3, size=n)
    ...     return Outputs(logits=4 * np.eye(3)[labels] + spread * rng.normal(size=(n, 3)), labels=labels)
    >>> guard = Guard("energy").calibrate(draw(1000, 1.0))
    >>> replay(guard, draw(500, 1.0)).sentence()
    'Sound: no alarm.'
    >>> replay(guard, draw(500, 2.0)).alarmed
    ('score', 'confidence')
    """
    as_kind(guard, Guard, "guard")
    demand(outputs, who="replay")
    outputs = in_order(outputs, guard.class_names_, name="outputs", of="the guard")
    size = as_count(batch, "batch")
    watch = guard.watch() if watch is None else watch
    if watch.fingerprint != guard.fingerprint:
        raise InputError("watch belongs to another guard. Start a new one: guard.watch().")
    before, answered = watch.rows, (0, 0) if watch.risk is None else (watch.risk.n, watch.risk.errors)
    labeled = outputs.has("correct")
    parts: list[Verdicts] = []
    paths: dict[str, list[Floats]] = {name: [] for name in watch.alarms}
    for start in range(0, outputs.n, size):
        rows = outputs[start : start + size]
        verdicts = guard(rows)
        for name, path in watch.update(verdicts).items():
            paths[name].append(path)
        if labeled and watch.risk is not None:
            watch.labels(~rows.correct[verdicts.kind == "accept"])
        parts.append(verdicts)
        if progress is not None:
            progress("replaying rows", start + rows.n, outputs.n)
    kind = np.concatenate([part.kind for part in parts])
    score = np.concatenate([part.score for part in parts])
    covered = _covered(parts, outputs) if labeled else None
    wrong = ~outputs.correct[kind == "accept"] if labeled else None
    values = {"score": score, "class": outputs.predictions}
    if "confidence" in watch.alarms:
        values["confidence"] = np.concatenate([part.doubt for part in parts if part.doubt is not None])
    sizes = [part.sets.sizes for part in parts if part.sets is not None]
    return Replay(
        title=title, guard=guard, n=outputs.n, before=before,
        counts={name: int((kind == name).sum()) for name in KINDS},
        measured=tuple(_measured(guard, kind, wrong, covered)),
        evidence={name: _evidence(watch, name, np.concatenate(path), before, values[name])
                  for name, path in paths.items()},
        histogram=p_histogram(guard.calibration_scores_, score, seed=int(guard.fingerprint[:12], 16)),
        live=None if wrong is None else _live(watch, wrong, answered),
        mean_set_size=float(np.concatenate(sizes).mean()) if sizes else None,
        alpha=watch.alpha, alarmed=watch.alarmed,
        risk_alarmed_at=None if watch.risk is None else watch.risk.alarmed_at,
    )  # fmt: skip


def p_histogram(calibration: Floats, scores: Floats, *, delta: float = DELTA, seed: int = 0) -> PHistogram:
    """P-values of scores (m,) against calibration scores (n,) in 20 bars, and the counts that chance allows.

    With n < 19 there are n + 1 bars. Equal scores are put in random order, by ``seed``.

    >>> bars = p_histogram(np.arange(99.0), np.arange(99.0) + 0.5)
    >>> bars.counts[:3].tolist(), int(bars.least[0]), int(bars.most[0]), bool(bars.outside.any())
    ([5, 5, 5], 0, 18, False)
    """
    rank, ranks = _ranks(calibration, scores, seed), calibration.size + 1
    bars = min(BARS, ranks)
    cuts = np.round(np.linspace(0, ranks, bars + 1)).astype(np.int64)
    widths = np.diff(cuts)
    regions = {k: beta_binomial_region(rank.size, k, ranks - k, delta=delta / bars) for k in set(widths.tolist())}
    least, most = np.array([regions[k] for k in widths.tolist()], dtype=np.int64).T
    counts = np.histogram(rank, cuts)[0].astype(np.int64)
    return PHistogram(cuts / ranks, counts, least, most, 1 - delta)


def share_small(calibration: Floats, values: Floats, *, seed: int = 0) -> float:
    """Share of values (m,) with p <= 0.05 against calibration values: about 0.05 if nothing changed. NaN without rows.

    >>> share_small(np.arange(99.0), np.array([50.0, 98.5, 99.5, 20.0]))
    0.5
    """
    if not values.size:
        return np.nan
    rank = _ranks(calibration, values, seed)
    return float(((rank + 1) / (calibration.size + 1) <= SMALL).mean())


def _ranks(calibration: Floats, scores: Floats, seed: int) -> Counts:
    """How many calibration scores are larger, equal ones in random order: 0 ... n, 0 is the strangest."""
    ordered = np.sort(calibration)
    above = ordered.size - np.searchsorted(ordered, scores, side="right")
    equal = ordered.size - np.searchsorted(ordered, scores, side="left") - above
    return np.asarray(above + stream(seed, "order of equal scores").integers(equal + 1), dtype=np.int64)


def _covered(parts: list[Verdicts], outputs: Outputs) -> NDArray[np.bool_] | None:
    member = [part.sets.member for part in parts if part.sets is not None]
    return np.concatenate(member)[np.arange(outputs.n), outputs.labels] if member else None


def _measured(
    guard: Guard, kind: NDArray[np.str_], wrong: NDArray[np.bool_] | None, covered: NDArray[np.bool_] | None
) -> list[Measured]:
    promises = {promise.what: promise for promise in guard.promises}
    shares = [_rate("false alarms", kind == "outlier", promises.get("false alarms"))]
    if wrong is not None:
        shares.append(_rate("errors among the accepted", wrong, promises.get("errors among the accepted")))
    promise = promises.get("coverage")
    if covered is not None and promise is not None:
        judged = coverage_verdict(
            int(covered.sum()), covered.size, n_calibration=promise.n, alpha=guard.alpha, delta=DELTA
        )
        share = proportion_interval(int(covered.sum()), covered.size, delta=DELTA)
        shares.append(Measured("coverage", share, promise, judged.verdict))
    return shares


def _rate(what: str, hits: NDArray[np.bool_], promise: Promise | None) -> Measured:
    """A rate that is bounded above: it is above chance if so many hits are rare at the promised rate itself."""
    if not hits.size:
        return Measured(what, None, promise, "")
    k, n = int(hits.sum()), hits.size
    verdict: Verdict = ""
    if promise is not None and promise.holds:
        verdict = "above" if rate_is_high(k, n, promise.bound) else "as chance allows"
    return Measured(what, proportion_interval(k, n, delta=DELTA), promise, verdict)


def _evidence(watch: Watch, name: str, path: Floats, before: int, values: Floats) -> Evidence:
    alarm = watch.alarms[name]
    keep = _extremes(path)
    small = share_small(alarm.urn.calibration, np.asarray(values, dtype=np.float64), seed=alarm.urn.seed)
    return Evidence(before + keep + 1, path[keep], float(path[-1]), float(path.max()), alarm.line, alarm.alarmed_at,
                    small)  # fmt: skip


def _extremes(path: Floats) -> Counts:
    """Indices of the lowest and highest value of each stretch of a path, so that a figure misses no peak."""
    if path.size <= 2 * _DRAWN:
        return np.arange(path.size)
    stretches = np.array_split(np.arange(path.size), _DRAWN)
    keep = [stretch[[path[stretch].argmin(), path[stretch].argmax()]] for stretch in stretches]
    return np.unique(np.concatenate([*keep, [0, path.size - 1]]))


def _live(watch: Watch, wrong: NDArray[np.bool_], answered: tuple[int, int]) -> LiveError | None:
    if not wrong.size:
        return None
    risk = None if watch.risk is None else watch.risk.risk
    places = np.unique(np.linspace(1, wrong.size, min(wrong.size, _INTERVALS)).astype(np.int64))
    answers, errors = answered[0] + places, answered[1] + np.cumsum(wrong)[places - 1]
    lower, upper = confidence_sequence(errors, answers, alpha=DELTA)
    return LiveError(answers, errors / answers, lower, upper, 1 - DELTA, risk)
