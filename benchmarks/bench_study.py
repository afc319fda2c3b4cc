"""Overhead of the runner per cell: keys, checks, metadata, renaming, progress.

    python benchmarks/bench_study.py

Floor: the same function and the same Arrow files, written in a loop, in the same run.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pyarrow as pa

from caveat_lab.experiments import run

CELLS, REPEATS = 200, 3
TASK = "def one(k):\n    return [{'i': i, 'value': k + i / 8} for i in range(50)]\n"
PLAN = f'[task]\nrun = "run.py:one"\n[grid]\nk = {list(range(CELLS))}\n'


def floor(folder: Path) -> float:
    space: dict = {}
    exec(TASK, space)
    started = time.process_time()
    for k in range(CELLS):
        table = pa.Table.from_pylist([{"k": k} | row for row in space["one"](k)])
        with pa.OSFile(str(folder / f"{k}.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    return time.process_time() - started


def main() -> None:
    ratios = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "run.py").write_text(TASK)
            (folder / "plan.toml").write_text(PLAN)
            (folder / "floor").mkdir()
            least = floor(folder / "floor")
            started = time.process_time()
            run(folder / "plan.toml", store=folder / "runs")
            first = time.process_time() - started
            started = time.process_time()
            run(folder / "plan.toml", store=folder / "runs")
            again = time.process_time() - started
        ratios.append((first / least, 1000 * first / CELLS, 1000 * again / CELLS))
    ratio, cell, found = min(ratios)
    print(f"runner / floor: {ratio:.2f} ({cell:.2f} ms of CPU per cell; {found:.2f} ms per cell that is there already)")


if __name__ == "__main__":
    main()
