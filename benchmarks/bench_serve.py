"""Load on the service: latency and rows a second, against a FastAPI application that only parses and multiplies.

    python benchmarks/bench_serve.py
    python benchmarks/bench_serve.py --soak 300

D = 512 Mahalanobis guard with 10,000 calibration rows; bodies of 256 rows as npy and of one row as JSON; audit on. Two
floors do the bare product of the rows with a D x D matrix in place of verdict, drift and audit: *same* is the same
application (limits, headers, log, metrics, a thread for the product), *bare* is FastAPI alone, in one thread. One
client process with several connections on loopback; service and floors take turns. ``--soak`` asks for a
number of seconds without pause and prints errors and the growth of memory.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from caveat import Guard, Outputs

FEATURES, CLASSES = 512, 10
CONNECTIONS = 8
TURNS = 5
FLOOR = """
import asyncio, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np, orjson, uvicorn
from fastapi import FastAPI, Request, Response
from threadpoolctl import threadpool_limits
from caveat.serve.bodies import read_arrays
from caveat.serve.gate import Body, Gate
from caveat.serve.metrics import Requests
from caveat.serve.run import run
from caveat.serve.settings import Limits
app, bodies, pool = FastAPI(), Body(Limits()), ThreadPoolExecutor(1)
square = np.random.default_rng(0).normal(size=(512, 512))
matrix = {square.dtype: square, np.dtype(np.float32): square.astype(np.float32)}
def product(body, media_type):
    rows = read_arrays(body, media_type, field="features", most=2**25)["features"]
    return orjson.dumps({"n": len(rows @ matrix[rows.dtype])})
async def bare(request: Request) -> Response:
    return Response(product(await request.body(), request.headers["content-type"]), media_type="application/json")
async def same(request: Request) -> Response:
    body = await bodies.read(request.headers, request.receive)
    try:
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(pool, product, body, request.headers.get("content-type", ""))
        return Response(answer, media_type="application/json")
    finally:
        bodies.release(len(body))
threadpool_limits(1)
if sys.argv[1] == "same":
    app.post("/v1/verdicts")(same)
    run(Gate(app, key=None, requests=Requests(), local_only=True), port=0,
        ready=lambda address: print(f"Serving: {address}", flush=True))
else:
    app.post("/v1/verdicts")(bare)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, http="h11", loop="asyncio"))
    start = server.startup
    async def startup(sockets=None):
        await start(sockets)
        print("Serving: http://127.0.0.1:%d" % server.servers[0].sockets[0].getsockname()[1], flush=True)
    server.startup = startup
    server.run()
"""


def guard_folder(folder: Path) -> np.ndarray:
    """Save a guard, and give rows to ask about."""
    rng = np.random.default_rng(0)
    means = 0.2 * rng.normal(size=(CLASSES, FEATURES))
    labels = rng.integers(CLASSES, size=15_256)
    rows = (means[labels] + rng.normal(size=(labels.size, FEATURES))).astype(np.float32)
    train = Outputs(features=rows[:5000], labels=labels[:5000])
    Guard("mahalanobis", sets=None).fit(train).calibrate(Outputs(features=rows[5000:15_000])).save(folder)
    return rows[15_000:]


@contextmanager
def started(command: list[str]) -> Iterator[tuple[int, int]]:
    """Port and process id of a server that prints its address; stopped by its process id."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    assert process.stdout is not None
    try:
        address = next(match for line in process.stdout if (match := re.search(r"Serving: http://\S+:(\d+)", line)))
        yield int(address[1]), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def request(body: bytes, media_type: str) -> bytes:
    lines = ("POST /v1/verdicts HTTP/1.1", "Host: localhost", f"Content-Type: {media_type}",
             f"Content-Length: {len(body)}", "", "")  # fmt: skip
    return "\r\n".join(lines).encode() + body


async def ask(port: int, message: bytes, seconds: float, connections: int) -> tuple[list[float], int, float]:
    """Latencies, errors and elapsed time of so many connections that ask without pause."""
    latencies: list[float] = []
    errors = 0
    end = time.perf_counter() + seconds

    async def one() -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        while time.perf_counter() < end:
            start = time.perf_counter()
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
            await reader.readexactly(length)
            latencies.append(time.perf_counter() - start)
            errors += not head.startswith(b"HTTP/1.1 200")
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    return latencies, errors, time.perf_counter() - start


def memory(process: int) -> float:
    """Resident memory in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def processor_time(process: int) -> float:
    """Seconds of processor time so far, over all threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def npy(rows: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, rows)
    return stream.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="Length of one turn.")
    parser.add_argument("--soak", type=float, default=0.0, help="Seconds without pause, with the growth of memory.")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = guard_folder(folder / "guard")
        bodies = {
            (256, "npy"): request(npy(rows[:256]), "application/x-npy"),
            (1, "JSON"): request(json.dumps({"features": rows[:1].tolist()}).encode(), "application/json"),
        }
        serve = [sys.executable, "-m", "caveat", "serve", str(folder / "guard"), "--port", "0", "--audit",
                 str(folder / "audit.sqlite"), "--queue", "64"]  # fmt: skip
        floors = {name: [sys.executable, "-c", FLOOR, name] for name in ("same", "bare")}
        with started(serve) as service, started(floors["same"]) as same, started(floors["bare"]) as bare:
            if options.soak:
                soak(*service, bodies, options.soak, options.connections)
            else:
                compare({"service": service, "same": same, "bare": bare}, bodies, options.seconds, options.connections)


def compare(
    servers: dict[str, tuple[int, int]], bodies: dict[tuple[int, str], bytes], seconds: float, connections: int
) -> None:
    for (n, kind), message in bodies.items():
        rates: dict[str, list[float]] = {name: [] for name in servers}
        costs: dict[str, list[float]] = {name: [] for name in servers}
        times: dict[str, list[float]] = {name: [] for name in servers}
        for turn in range(TURNS + 1):
            for name, (port, process) in servers.items():
                before = processor_time(process)
                latencies, errors, elapsed = asyncio.run(ask(port, message, seconds if turn else 0.5, connections))
                assert not errors, f"{errors} answers of the {name} were not 200"
                if turn:  # the first turn warms up
                    rates[name].append(n * len(latencies) / elapsed)
                    costs[name].append((processor_time(process) - before) / len(latencies))
                    times[name] += latencies
        for name in servers:
            p50, p99 = np.quantile(times[name], [0.5, 0.99])
            rate, cost = statistics.median(rates[name]), 1e3 * statistics.median(costs[name])
            print(f"{n:>3} rows, {kind:<4} {name:<7} {rate:>9,.0f} rows/s, p50 {1e3 * p50:.1f}, "
                  f"p99 {1e3 * p99:.1f} ms; {cost:.2f} ms of processor time a request")  # fmt: skip
        for floor in ("same", "bare"):
            shares = [a / b for a, b in zip(rates["service"], rates[floor], strict=True)]
            dear = [a / b for a, b in zip(costs[floor], costs["service"], strict=True)]
            print(f"{n:>3} rows, {kind:<4} {100 * statistics.median(shares):.0f} % of the throughput of {floor}, "
                  f"{100 * statistics.median(dear):.0f} % by processor time")  # fmt: skip


def soak(port: int, process: int, bodies: dict[tuple[int, str], bytes], seconds: float, connections: int) -> None:
    """Both bodies in turn; memory is compared from the end of the first tenth on."""
    asked, errors, times = 0, 0, []
    start, before = time.perf_counter(), None
    while (elapsed := time.perf_counter() - start) < seconds:
        if before is None and elapsed > seconds / 10:
            before = memory(process)
        for message in bodies.values():
            latencies, wrong, _ = asyncio.run(ask(port, message, 2.0, connections))
            asked, errors = asked + len(latencies), errors + wrong
            times += latencies
    after = memory(process)
    assert before is not None
    p50, p99 = 1e3 * np.quantile(times, [0.5, 0.99])
    print(f"{seconds:.0f} s: {asked:,} requests, {errors} errors, p50 {p50:.1f}, p99 {p99:.1f} ms; "
          f"memory {before:.0f} MiB after a tenth of the time, {after:.0f} MiB at the end "
          f"({100 * (after / before - 1):+.1f} %)")  # fmt: skip


if __name__ == "__main__":
    main()
