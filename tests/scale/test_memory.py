"""Memory is bounded by the block size: a 500 MB form of ``benchmarks/scale_memory.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import caveat

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "scale_memory.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space")
def test_a_folder_of_500_mb_takes_no_more_memory_than_one_of_140_mb(tmp_path):
    peaks = []
    for gigabytes in ("0.14", "0.5"):
        command = [sys.executable, str(SCRIPT), "--gigabytes", gigabytes, "--limit", "1.5", "--folder", str(tmp_path)]
        env = os.environ | {"PYTHONPATH": str(Path(caveat.__file__).parents[1])}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=True)
        peaks.append(json.loads(done.stdout.splitlines()[0])["peak_bytes"])
    assert peaks[1] < 450e6  # numpy, scipy and the library take 100 MB of it
    assert peaks[1] < 1.15 * peaks[0]
