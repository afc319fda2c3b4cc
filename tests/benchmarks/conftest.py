"""The scripts of benchmarks/ import each other by plain names, as they do when they are run."""

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
for folder in (BENCHMARKS / "peers", BENCHMARKS):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
