"""CPU time of ``caveat --help`` against a typer application with one command, in the same run.

    python benchmarks/bench_cli.py

Every call is a new process, and the calls take turns. ``--version`` and ``scores`` show what a command adds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

REPEATS = 7
FLOOR = """
import typer
app = typer.Typer(rich_markup_mode="rich")
app.callback()(lambda: None)
app.command("one")(lambda: None)
app(["--help"])
"""
CALLS = {
    "python -c pass": ["-c", "pass"],
    "one typer command --help": ["-c", FLOOR],
    "import numpy": ["-c", "import numpy"],
    "caveat --version": ["-m", "caveat", "--version"],
    "caveat --help": ["-m", "caveat", "--help"],
    "caveat evaluate --help": ["-m", "caveat", "evaluate", "--help"],
    "caveat guard fit --help": ["-m", "caveat", "guard", "fit", "--help"],
    "caveat scores": ["-m", "caveat", "scores"],
}


def cpu_seconds(args: list[str]) -> float:
    """User and system time of one process."""
    before = os.times()
    subprocess.run([sys.executable, *args], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    seconds: dict[str, list[float]] = {name: [] for name in CALLS}
    for _ in range(REPEATS):
        for name, args in CALLS.items():
            seconds[name].append(cpu_seconds(args))
    floor = statistics.median(seconds["one typer command --help"])
    print(f"CPU seconds, median of {REPEATS} processes; ratio to the help of one typer command")
    for name, runs in seconds.items():
        print(f"{name:26}{statistics.median(runs):8.3f}{statistics.median(runs) / floor:8.2f}")


if __name__ == "__main__":
    main()
