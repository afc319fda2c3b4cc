"""Metrics for Prometheus, read from the state of the service when they are asked for: nothing is counted twice."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from caveat import __version__
from caveat.serve.trail import P_EDGES

if TYPE_CHECKING:
    from caveat.serve.engine import Engine

__all__ = ["Metrics", "Requests"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@final
class Requests:
    """How many requests of each path got each status, and how long they took."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, int]] = Counter()
        self._buckets = [0] * (len(SECONDS) + 1)
        self._sum = 0.0

    def add(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self.counts[path, status] += 1
        self._buckets[bisect_left(SECONDS, seconds)] += 1
        self._sum += seconds

    def families(self) -> Iterator[Metric]:
        """Requests and their times as metrics."""
        requests = CounterMetricFamily("caveat_requests", "Requests by path and status.", labels=["path", "status"])
        for (path, status), count in sorted(self.counts.items()):
            requests.add_metric([path, str(status)], count)
        yield requests
        yield _histogram(
            "caveat_request_seconds", "Time to answer a request.", SECONDS, np.array(self._buckets), self._sum
        )


@final
class Metrics(Collector):
    """Everything that ``GET /metrics`` says."""

    def __init__(self, engine: Engine, requests: Requests, held_bytes: Callable[[], int]) -> None:
        self._engine, self._requests, self._held_bytes = engine, requests, held_bytes
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """The metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        engine, trail = self._engine, self._engine.trail
        with trail.lock:
            counts, evidence, lines = dict(trail.live.counts), trail.watch.log10_e, trail.watch.alarms
            alarmed = set(trail.watch.alarmed)
            p_counts, p_sum = trail.p_counts.copy(), trail.p_sum
            risk = trail.watch.risk
            errors = None if risk is None else (risk.n - risk.missing, risk.errors)
        verdicts = CounterMetricFamily("caveat_verdicts", "Verdicts given.", labels=["verdict"])
        for kind, count in counts.items():
            verdicts.add_metric([kind], count)
        yield verdicts
        yield _histogram("caveat_p_value", "P-values of the rows.", tuple(P_EDGES), p_counts, p_sum)
        drift = GaugeMetricFamily("caveat_drift_log10_e", "Evidence for drift, log10.", labels=["stream"])
        limit = GaugeMetricFamily("caveat_drift_alarm_line", "Evidence at which the alarm rings.", labels=["stream"])
        rung = GaugeMetricFamily("caveat_alarm", "1 from the moment an alarm has rung.", labels=["stream"])
        for name, value in evidence.items():
            drift.add_metric([name], value)
            limit.add_metric([name], lines[name].line)
            rung.add_metric([name], float(name in alarmed))
        if errors is not None:
            rung.add_metric(["risk"], float("risk" in alarmed))
        yield from (drift, limit, rung)
        if errors is not None:
            yield CounterMetricFamily("caveat_labels", "Labels of accepted rows.", value=errors[0])
            yield CounterMetricFamily("caveat_label_errors", "Wrong answers among them.", value=errors[1])
        yield from self._requests.families()
        yield GaugeMetricFamily("caveat_queue_depth", "Requests let in and not yet answered.", value=engine.depth)
        yield GaugeMetricFamily("caveat_held_bytes", "Bodies of requests in memory.", value=self._held_bytes())
        yield CounterMetricFamily("caveat_audit_records", "Records of the audit trail.", value=trail.seq)
        info = GaugeMetricFamily("caveat_guard_info", "The guard and the version.", labels=["hash", "version"])
        info.add_metric([engine.guard.fingerprint, __version__], 1)
        yield info


def _histogram(
    name: str, text: str, bounds: tuple[float, ...], counts: NDArray[np.int64], total: float
) -> HistogramMetricFamily:
    """Counts of values up to each bound; values above the last bound may have a count of their own."""
    labels = [*(f"{bound:g}" for bound in bounds), "+Inf"]
    sums = np.cumsum(np.pad(counts, (0, len(labels) - counts.size))).tolist()
    return HistogramMetricFamily(name, text, buckets=list(zip(labels, sums, strict=True)), sum_value=total)
