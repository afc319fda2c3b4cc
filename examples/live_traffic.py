"""A running service with traffic: quiet for a while, then drifting. Open the printed address and watch the page.

    caveat demo
    python examples/live_traffic.py caveat-demo

Starts ``caveat serve`` with the guard of the demonstration on a free port of this machine, sends the held-out digits
with their labels, then partly covered digits, and prints when the drift alarm rings. The service goes on until Ctrl-C;
with ``--once`` it stops after the traffic. The client uses the standard library alone: any language can do the same.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from caveat import Outputs

ROWS = 4  # of one request


@contextmanager
def service(guard: Path, audit: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Address and process of a started service; it is stopped by its process id at the end."""
    command = [sys.executable, "-m", "caveat", "serve", str(guard), "--port", "0", "--audit", str(audit)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "200"})
    assert process.stdout is not None
    try:
        lines = iter(process.stdout)
        address = next((match for line in lines if (match := re.search(r"Serving: (\S+)", line))), None)
        if address is None:
            sys.exit("The service did not start; its message is above.")
        yield address[1], process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def post(address: str, content: Any) -> Any:
    request = Request(address, json.dumps(content).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)


def send(address: str, rows: Outputs, seconds: float) -> list[dict[str, Any]]:
    """Send rows, a few at a time, and their labels where there are any; all verdicts."""
    verdicts: list[dict[str, Any]] = []
    requests = -(-rows.n // ROWS)
    for start in range(0, rows.n, ROWS):
        part = rows[start : start + ROWS]
        body = {"logits": part.logits.tolist(), "features": part.features.tolist()}
        answers = post(f"{address}/v1/verdicts", body)["verdicts"]
        if part.labels is not None:  # in a product they come later, when somebody finds out the true class
            labels = [{"id": row["id"], "label": int(label)} for row, label in zip(answers, part.labels, strict=True)]
            post(f"{address}/v1/labels", {"labels": labels})
        verdicts += answers
        time.sleep(seconds / requests)
    return verdicts


def alarms(address: str, rows: int) -> dict[str, int]:
    """Which drift alarms have rung, and at which row, once the page has taken in so many rows."""
    while True:
        with urlopen(f"{address}/v1/live", timeout=30) as answer:
            live = json.load(answer)
        if live["rows"] >= rows:
            return {
                stream["label"]: stream["alarmed_at"] for stream in live["drift"]["streams"] if stream["alarmed_at"]
            }
        time.sleep(0.1)


def counted(verdicts: list[dict[str, Any]]) -> str:
    kinds = [row["kind"] for row in verdicts]
    return f"{len(kinds)} verdicts: " + ", ".join(
        f"{kinds.count(kind)} {kind}" for kind in ("accept", "abstain", "outlier")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", type=Path, help="Folder that caveat demo wrote.")
    parser.add_argument("--seconds", type=float, default=60.0, help="Length of the traffic.")
    parser.add_argument("--once", action="store_true", help="Stop after the traffic.")
    options = parser.parse_args()
    if not (options.demo / "guard").is_dir():
        sys.exit(f"{options.demo} has no guard. Run: caveat demo --out {options.demo}")
    quiet, drifted = Outputs.load(options.demo / "inliers.npz"), Outputs.load(options.demo / "drifted.npz")
    with (
        tempfile.TemporaryDirectory() as folder,
        service(options.demo / "guard", Path(folder) / "audit.sqlite") as (
            address,
            process,
        ),
    ):
        print(f"Open {address} in a browser.", flush=True)
        first = send(address, quiet, options.seconds / 2)
        print(f"Held-out digits. {counted(first)}. Alarms: {alarms(address, quiet.n) or 'none'}.", flush=True)
        second = send(address, drifted, options.seconds / 2)
        rung = alarms(address, quiet.n + drifted.n)
        print(f"Partly covered digits from row {quiet.n + 1} on. {counted(second)}.", flush=True)
        print(
            "Alarms: " + (", ".join(f"{name} at row {row}" for name, row in rung.items()) or "none") + ".", flush=True
        )
        if not options.once:
            print("The service goes on; stop it with Ctrl-C.", flush=True)
            with suppress(KeyboardInterrupt):
                process.wait()


if __name__ == "__main__":
    main()
