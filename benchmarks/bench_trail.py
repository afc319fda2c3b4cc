"""The audit trail: time from a verdict to its commit, p50 and p99, and records a second that are verified.

    python benchmarks/bench_trail.py
    python benchmarks/bench_trail.py --folder /mnt/slow

One record of one row at a time, as the service commits a request that comes alone. Once a second the trail looks after
its file, as in the service; those moments count. Floors in the same run: one row inserted into a bare SQLite file with
the same settings, and sha256 of each record's content.
"""

from __future__ import annotations

import argparse
import hashlib
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from caveat import Guard, Outputs
from caveat.serve import open_store, verify_trail
from caveat.serve.audit.content import encode_verdicts
from caveat.serve.trail import Trail

LOOK_SECONDS = 1.0


def timed(step: Callable[[], object], seconds: float, look: Callable[[], object] = lambda: None) -> np.ndarray:
    """Milliseconds of each step; ``look`` is done every second, and what waits for it waits longer."""
    times, end, next_look = [], time.perf_counter() + seconds, 0.0
    while (start := time.perf_counter()) < end:
        if start > next_look:
            look()
            next_look = start + LOOK_SECONDS
        step()
        times.append(1e3 * (time.perf_counter() - start))
    return np.array(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="Length of each measurement.")
    parser.add_argument("--folder", type=Path, help="Where the files are made. Default: that of temporary files.")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    guard = Guard("energy", sets=None).calibrate(Outputs(logits=rng.normal(size=(1000, 10))))
    body = encode_verdicts(guard(Outputs(logits=rng.normal(size=(1, 10)))))
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        for durable in (False, True):
            bare = sqlite3.connect(f"{name}/bare-{durable}.sqlite", isolation_level=None)
            bare.execute("PRAGMA journal_mode=WAL")
            bare.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            bare.execute("CREATE TABLE rows (body BLOB)")
            store = open_store(f"{name}/trail-{durable}.sqlite", durable=durable)
            trail = Trail(guard, store)
            measured = {
                "bare": timed(lambda bare=bare: bare.execute("INSERT INTO rows VALUES (?)", (body,)), options.seconds),
                "trail": timed(
                    lambda trail=trail: trail.append_verdicts([(1, body, None)]), options.seconds, store.look_after
                ),
            }
            kind = "durable" if durable else "default"
            for what, times in measured.items():
                p50, p99 = np.quantile(times, [0.5, 0.99])
                print(f"{kind}: {what:<5} {times.size / options.seconds:>8,.0f} commits/s, "
                      f"p50 {p50:.3f}, p99 {p99:.3f}, longest {times.max():.1f} ms")  # fmt: skip
            bare.close()
            start = time.perf_counter()
            result = verify_trail(store)
            seconds = time.perf_counter() - start
            start = time.perf_counter()
            for _ in range(result.records):
                hashlib.sha256(body).digest()
            floor = time.perf_counter() - start
            assert result.sound, result.reason
            print(f"{kind}: {result.records / seconds:,.0f} records/s verified, {seconds / floor:.1f} times sha256")
            store.close()


if __name__ == "__main__":
    main()
