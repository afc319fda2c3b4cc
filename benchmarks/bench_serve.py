"""Load on the service: latency and rows a second, beside applications that only parse, multiply and answer.

    python benchmarks/bench_serve.py
    python benchmarks/bench_serve.py --guard small --rows 64 --bodies json,npz
    python benchmarks/bench_serve.py --soak 300

Two guards: *wide* is Mahalanobis on 512 features; *small* is Mahalanobis on 32 features, with logits, prediction sets
and a promise about errors. Bodies of 1, 64 and 1,024 rows as JSON, npz and Open Inference (JSON, FP32); audit on. Two
floors do one product of the rows with a square matrix in float64, as scores do, in place of verdict, p-values, sets,
drift and audit, and answer with as many rows: *bare* is uvicorn, orjson and numpy in one thread; *same* has the limits,
headers, log, metrics and thread of the service. One client process with several connections on loopback; service and
floors take turns. ``--soak`` asks for a number of seconds without pause and prints errors and the growth of memory.
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

CLASSES = 10
WIDTHS = {"wide": 512, "small": 32}
CONNECTIONS = 8
TURNS = 5
FLOOR = """
import asyncio, io, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np, orjson, uvicorn
from threadpoolctl import threadpool_limits
threadpool_limits(1)
square = np.random.default_rng(0).normal(size=(int(sys.argv[2]),) * 2)

def arrays(body, media_type):
    if media_type == "application/x-npz":
        return dict(np.load(io.BytesIO(body)))
    content = orjson.loads(body)
    if "inputs" in content:
        return {x["name"]: np.array(x["data"], dtype=np.float32).reshape(x["shape"]) for x in content["inputs"]}
    return {name: np.array(rows) for name, rows in content.items()}

def answer(body, media_type):
    given = arrays(body, media_type)
    product = given["features"].astype(np.float64) @ square
    scores = (product * product).sum(axis=1).tolist()
    classes = given["logits"].argmax(axis=1).tolist() if "logits" in given else [None] * len(scores)
    return orjson.dumps({"verdicts": [
        {"id": i, "kind": "accept", "prediction": c, "score": s, "set": None if c is None else [c]}
        for i, (s, c) in enumerate(zip(scores, classes))
    ]})

async def bare(scope, receive, send):
    body = b""
    while (message := await receive()).get("more_body"):
        body += message["body"]
    content = answer(body + message["body"], dict(scope["headers"])[b"content-type"].decode())
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})

if sys.argv[1] == "bare":
    server = uvicorn.Server(uvicorn.Config(bare, port=0, log_config=None, access_log=False, http="h11",
                                           loop="asyncio", lifespan="off"))
    start = server.startup
    async def startup(sockets=None):
        await start(sockets)
        print("Serving: http://127.0.0.1:%d" % server.servers[0].sockets[0].getsockname()[1], flush=True)
    server.startup = startup
    server.run()
else:
    from fastapi import FastAPI, Request, Response
    from caveat.serve.gate import Body, Gate
    from caveat.serve.keys import Keys
    from caveat.serve.metrics import Requests
    from caveat.serve.run import run
    from caveat.serve.settings import Limits
    app, bodies, pool = FastAPI(), Body(Limits(json_bytes=2**25)), ThreadPoolExecutor(1)
    async def same(request: Request) -> Response:
        body = await bodies.read(request.headers, request.receive)
        try:
            loop, media_type = asyncio.get_running_loop(), request.headers.get("content-type", "")
            return Response(await loop.run_in_executor(pool, answer, body, media_type), media_type="application/json")
        finally:
            bodies.release(len(body))
    app.post("/v1/verdicts")(same)
    app.post("/v2/models/guard/infer")(same)
    run(Gate(app, keys=Keys(), requests=Requests(), local_only=True), port=0,
        ready=lambda address: print(f"Serving: {address}", flush=True))
"""


def guard_folder(folder: Path, kind: str) -> dict[str, np.ndarray]:
    """Save a guard, and give rows to ask about."""
    rng, width = np.random.default_rng(0), WIDTHS[kind]
    means = 4.5 / np.sqrt(width) * rng.normal(size=(CLASSES, width))
    labels = rng.integers(CLASSES, size=16_024)
    features = (means[labels] + rng.normal(size=(labels.size, width))).astype(np.float32)
    if kind == "wide":
        whole, guard = Outputs(features=features, labels=labels), Guard("mahalanobis", sets=None)
        asked = {"features": features[15_000:]}
    else:
        logits = (features @ means.T).astype(np.float32)
        whole, guard = Outputs(features=features, logits=logits, labels=labels), Guard("mahalanobis", risk=0.2)
        asked = {"features": features[15_000:], "logits": logits[15_000:]}
    held = whole[5000:15_000] if kind == "small" else Outputs(features=features[5000:15_000])
    guard.fit(whole[:5000]).calibrate(held).save(folder)
    return asked


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


def request(body: bytes, media_type: str, path: str = "/v1/verdicts") -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {media_type}", f"Content-Length: {len(body)}",
             "", "")  # fmt: skip
    return "\r\n".join(lines).encode() + body


def messages(rows: dict[str, np.ndarray]) -> dict[str, bytes]:
    """One request with these rows in each form."""
    stream = io.BytesIO()
    np.savez(stream, **rows)
    inputs = [{"name": name, "shape": array.shape, "datatype": "FP32", "data": array.ravel().tolist()}
              for name, array in rows.items()]  # fmt: skip
    plain = {name: array.tolist() for name, array in rows.items()}
    return {
        "json": request(json.dumps(plain).encode(), "application/json"),
        "npz": request(stream.getvalue(), "application/x-npz"),
        "inference": request(json.dumps({"inputs": inputs}).encode(), "application/json", "/v2/models/guard/infer"),
    }


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="Length of one turn.")
    parser.add_argument("--turns", type=int, default=TURNS, help="Turns of each server.")
    parser.add_argument("--soak", type=float, default=0.0, help="Seconds without pause, with the growth of memory.")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--guard", choices=list(WIDTHS), action="append", help="Default: both.")
    parser.add_argument("--rows", default="1,64,1024", help="Numbers of rows of a request.")
    parser.add_argument("--bodies", default="json,npz,inference", help="Forms of a request.")
    options = parser.parse_args()
    for kind in options.guard or WIDTHS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            asked = guard_folder(folder / "guard", kind)
            bodies = {
                (n, form): message for n in map(int, options.rows.split(","))
                for form, message in messages({key: array[:n] for key, array in asked.items()}).items()
                if form in options.bodies.split(",")
            }  # fmt: skip
            serve = [sys.executable, "-m", "caveat", "serve", str(folder / "guard"), "--port", "0", "--audit",
                     str(folder / "audit.sqlite"), "--queue", "64", "--json-mb", "32"]  # fmt: skip
            floors = {name: [sys.executable, "-c", FLOOR, name, str(WIDTHS[kind])] for name in ("same", "bare")}
            with started(serve) as service, started(floors["same"]) as same, started(floors["bare"]) as bare:
                if options.soak:
                    soak(*service, bodies, options.soak, options.connections)
                else:
                    print(f"-- guard: {kind}, {WIDTHS[kind]} features", flush=True)
                    servers = {"service": service, "same": same, "bare": bare}
                    compare(servers, bodies, options.seconds, options.connections, options.turns)


def compare(
    servers: dict[str, tuple[int, int]],
    bodies: dict[tuple[int, str], bytes],
    seconds: float,
    connections: int,
    turns: int,
) -> None:
    for (n, kind), message in bodies.items():
        rates: dict[str, list[float]] = {name: [] for name in servers}
        costs: dict[str, list[float]] = {name: [] for name in servers}
        times: dict[str, list[float]] = {name: [] for name in servers}
        for turn in range(turns + 1):
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
            print(f"{n:>4} rows, {kind:<9} {name:<7} {rate:>9,.0f} rows/s, p50 {1e3 * p50:.1f}, "
                  f"p99 {1e3 * p99:.1f} ms; {cost:.2f} ms of processor time a request")  # fmt: skip
        for floor in ("same", "bare"):
            shares = [a / b for a, b in zip(rates["service"], rates[floor], strict=True)]
            dear = [a / b for a, b in zip(costs[floor], costs["service"], strict=True)]
            print(f"{n:>4} rows, {kind:<9} {100 * statistics.median(shares):.0f} % of the throughput of {floor}, "
                  f"{100 * statistics.median(dear):.0f} % by processor time", flush=True)  # fmt: skip


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
