"""Report of a study of 873 cells: 97 methods and models of three sources and three seeds, four outlier sets each.

    python benchmarks/bench_report.py            # the study itself takes about a minute

Floor: the Arrow files of the store, read once in the same run.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pyarrow as pa
from timing import take_turns

from caveat.report import render_report
from caveat_lab.experiments import run

SOURCE = """
import numpy as np
from caveat import Head, Outputs

def outputs(seed, spread):
    rng = np.random.default_rng([seed, int(10 * spread)])
    head = Head(2.0 * np.eye(5, 16), np.zeros(5))
    def rows(n, shift=0.0):
        labels = rng.integers(5, size=n)
        features = 2 * np.eye(5, 16)[labels] + spread * rng.normal(size=(n, 16))
        features[:, -1] += shift
        return Outputs(features=features, labels=None if shift else labels, head=head)
    outliers = {name: rows(200, shift) for name, shift in (("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 5.0))}
    return {"train": rows(400), "calibration": rows(300), "inlier": rows(300), "outliers": outliers}
"""
PLAN = 'seeds = [0, 1, 2]\nresamples = 50\nprojections = ["none", "global", "class_pred", "class_avg"]\n' + "".join(
    f'[sources.{name}]\ntask = "make.py:outputs"\nparams = {{spread = {spread}}}\n[sources.{name}.outliers]\n'
    'a = {regime = "near"}\nb = {regime = "mid"}\nc = {regime = "mid"}\nd = {regime = "far"}\n'
    for name, spread in (("one", 1.0), ("two", 1.3), ("three", 0.8))
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1, help="processes for the study, which is not timed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "make.py").write_text(SOURCE)
        (folder / "plan.toml").write_text(PLAN)
        results = run(folder / "plan.toml", store=folder / "runs", jobs=options.jobs)
        files = [results.store.path(cell["key"]) for cell in results.finished]
        findings = results.findings()
        seconds = take_turns(
            {"read": lambda: [pa.ipc.open_stream(file.read_bytes()).read_all() for file in files],
             "findings": results.findings, "page": lambda: render_report(findings)},
            options.repeat,
        )  # fmt: skip
    whole = seconds["findings"] + seconds["page"]
    parts = f"findings {seconds['findings']:.1f}, page {seconds['page']:.1f}"
    print(f"report of {len(files)} cells: {whole:.1f} CPU s ({parts}), {1e3 * whole / len(files):.1f} ms a cell")
    print(f"reading the files alone: {seconds['read']:.2f} s; ratio {whole / seconds['read']:.0f}")


if __name__ == "__main__":
    main()
