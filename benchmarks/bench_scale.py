"""Growth of fitting and scoring by row ranges, as log-log slopes, and the constants of the cost model in docs/scale.md.

CPU seconds of one thread, so that other programs hardly matter. ``--largest 1e7`` adds ten million rows (640 MB on the
disk, two minutes); the default stops at a million.
"""

from __future__ import annotations

import argparse
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from timing import least

from caveat import scale
from caveat.scale.arrays import NpyFile
from caveat.scale.fitting import Gather
from caveat.scores import make
from caveat.scores._statistics import ClassMoments

_PART = 100_000  # rows made at a time


def folder_of(path: Path, n: int, width: int, classes: int) -> Path:
    """Features of Gaussian classes and labels, as float32 and int32."""
    path.mkdir()
    rng = np.random.default_rng(0)
    means = rng.normal(size=(classes, width)).astype(np.float32)
    np.save(path / "labels.npy", (np.arange(n) % classes).astype(np.int32))
    features = np.lib.format.open_memmap(path / "features.npy", mode="w+", dtype=np.float32, shape=(n, width))
    for start in range(0, n, _PART):
        rows = np.arange(start, min(start + _PART, n)) % classes
        features[start : start + _PART] = means[rows] + rng.normal(size=(rows.size, width)).astype(np.float32)
    return path


def growth(name: str, sizes: Iterable[int], make_folder: Callable[[int], Path]) -> None:
    """CPU seconds of fit and score at each size, and the slope between neighbors on logarithmic axes."""
    seconds: dict[str, list[float]] = {"fit": [], "score": []}
    sizes = list(sizes)
    for size in sizes:
        folder = make_folder(size)
        fitted = scale.fit("mahalanobis", folder)
        repeats = 3 if size < 10**6 else 1
        seconds["fit"].append(least(lambda: scale.fit("mahalanobis", folder), repeats))  # noqa: B023
        out = folder / "scores" / "s.npy"
        seconds["score"].append(least(lambda: scale.score(fitted, folder, out=out), repeats))  # noqa: B023
    for what, values in seconds.items():
        slopes = np.diff(np.log(values)) / np.diff(np.log(sizes))
        text = ", ".join(f"{size:.0e}: {value:.3f} s" for size, value in zip(sizes, values, strict=True))
        print(f"{what:<5} against {name:<7} {text}; slopes {', '.join(f'{slope:.2f}' for slope in slopes)}")


def constants(folder: Path, classes: int = 1000, width: int = 768) -> None:
    """What a range costs at width 768 and 1,000 classes: reading, checking, products, merging, sending."""
    n = 20_000
    source = scale.open_source(folder_of(folder / "wide", n, width, classes))
    size = n * width * 4
    file = NpyFile.of(folder / "wide" / "features.npy")
    read = least(lambda: file.rows(0, n, 0))
    print(f"read from the page cache        {size / read / 1e9:6.2f} GB/s")
    checked = least(lambda: source.read(0, n)) - read
    print(f"check of the values             {size / checked / 1e9:6.2f} GB/s")
    rows = source.read(0, n).features
    product = least(lambda: rows.T @ rows)
    print(f"product in float32              {2 * n * width**2 / product / 1e9:6.1f} GFLOP/s")
    work = Gather(source, source.read(0, 1), (ClassMoments(),), classes, True)
    fitted = least(lambda: work(0, n))
    print(f"statistics of a range           {1e6 * fitted / n:6.2f} us per row (product alone {1e6 * product / n:.2f})")
    part = work(0, n)
    print(f"merge of two ranges             {1e3 * least(lambda: part + part):6.1f} ms")
    print(f"statistics of a range           {len(pickle.dumps(part, protocol=5)) / 1e6:6.2f} MB")
    score = scale.fit(make("mahalanobis", class_rank=0), source)
    print(f"score                           {1e6 * least(lambda: score.score(source.read(0, n))) / n:6.2f} us per row")


def overhead(folder: Path) -> None:
    """What Dask adds to a range: wall time of many empty ranges with two workers, over their number."""
    small = scale.open_source(folder_of(folder / "small", 2000, 2, 2))
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        return
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        scale.fit("mahalanobis", small, rows_per_task=100, client=client)
        started = time.perf_counter()
        scale.fit("mahalanobis", small, rows_per_task=10, client=client)
        print(f"Dask, per range and merge       {1e3 * (time.perf_counter() - started) / 200:6.1f} ms of wall time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=float, default=1e6)
    largest = int(parser.parse_args().largest)
    print(f"load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        rows = [n for n in (10**5, 10**6, 10**7) if n <= largest]
        growth("rows", rows, lambda n: folder_of(base / f"rows{n}", n, 16, 10))
        growth("classes", (10, 100, 1000), lambda c: folder_of(base / f"classes{c}", 10**5, 64, c))
        growth("width", (64, 256, 1024), lambda d: folder_of(base / f"width{d}", 50_000, d, 10))
        constants(base)
        overhead(base)


if __name__ == "__main__":
    main()
