"""Fit and score a folder that is larger than the memory allowed: 20 GB under a limit of 1.5 GB.

The folder is a sparse file: zeros take no room on the disk, and a few blocks of rows are filled so that there is
something to learn. The limit is on the address space of the process (RLIMIT_AS), so a memory map of the folder, a copy
of it, or anything else larger than the limit fails. The peak is the resident set (VmHWM); files are read, not mapped,
so the page cache has no part in it.

    python benchmarks/scale_memory.py --gigabytes 20 --limit 1.5
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
from numpy.lib.format import open_memmap

WIDTH, CLASSES, FILLED, ROWS_FILLED = 512, 10, 16, 4096


def make_folder(folder: Path, gigabytes: float) -> int:
    """Features (n, 512) in float32, mostly zero, and labels; gives n."""
    n = int(gigabytes * 1e9) // (4 * WIDTH)
    folder.mkdir(parents=True)
    np.save(folder / "labels.npy", (np.arange(n) % CLASSES).astype(np.uint8))
    rng = np.random.default_rng(0)
    features = open_memmap(folder / "features.npy", mode="w+", dtype=np.float32, shape=(n, WIDTH))
    for start in np.linspace(0, n - ROWS_FILLED, FILLED).astype(int):
        features[start : start + ROWS_FILLED] = rng.normal(size=(ROWS_FILLED, WIDTH))
    features.flush()
    return n


def limited(gigabytes: float) -> None:
    """No more address space than this."""
    resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 1e9),) * 2)


def peak_bytes() -> int:
    """Largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(folder: Path, out: Path) -> dict[str, float]:
    """Seconds of a fit and of scoring, and the peak."""
    from caveat import scale

    started = time.perf_counter()
    score = scale.fit("mahalanobis", folder)
    fitted = time.perf_counter()
    values = scale.score(score, folder, out=out)
    scored = time.perf_counter()
    part = values[:ROWS_FILLED]
    assert values.shape == (scale.open_source(folder).n,)
    assert np.isfinite(part).all()
    assert np.unique(part).size > ROWS_FILLED // 2
    return {"fit_seconds": fitted - started, "score_seconds": scored - fitted, "peak_bytes": peak_bytes()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--limit", type=float, default=1.5, help="address space in GB")
    parser.add_argument("--folder", type=Path, default=None, help="where to work; default a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary) / "train"
        if os.fork() == 0:  # the folder is made in a process without the limit
            make_folder(folder, options.gigabytes)
            os._exit(0)
        assert os.wait()[1] == 0
        size = (folder / "features.npy").stat()
        limited(options.limit)
        result = measure(folder, Path(temporary) / "scores.npy")
    apparent, taken = size.st_size / 1e9, size.st_blocks * 512 / 1e9
    print(json.dumps({"gigabytes": apparent, "on_disk": taken, "limit": options.limit} | result))
    print(
        f"{apparent:.1f} GB ({taken:.2f} on disk) under {options.limit} GB of address space: fit "
        f"{result['fit_seconds']:.0f} s, score {result['score_seconds']:.0f} s, "
        f"peak {result['peak_bytes'] / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
