"""What every file of this folder shares: it runs the methods of one package and prints JSON lines.

A file of this folder has a name ``<family>_<package>.py`` and a table of methods. A method is a pair of functions:
``first(data) -> state`` (fit, calibrate) and ``second(state, data) -> result`` (score, predict). Both are timed. The
same pair runs on the repeated draws, whose results ``judge.py`` compares with the truth.

    python benchmarks/peers/sets_mapie.py FOLDER            times every method; one JSON line
    python benchmarks/peers/sets_mapie.py FOLDER --turns    one JSON line for each command read from standard input:
                                                            "time METHOD", "check METHOD" or "draws METHOD"

FOLDER is written by ``benchmarks/arrays.py``. This file needs numpy and the standard library only.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import json
import logging
import platform
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import judge
import numpy as np

Method = tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]
Methods = Mapping[str, Method]
ALONE = 5  # repeats of a file that is run by hand
MEASURABLE, MOST_RUNS = 0.05, 200  # seconds and runs of one turn: short calls are repeated
SLOW = 5.0  # seconds; such a run is not repeated for its memory


def run(
    package: str,
    methods: Methods,
    *,
    prepare: Callable[[Any], Any] = lambda data: data,
    judged: Methods | None = None,
) -> None:
    """Time the methods on the arrays of the folder named on the command line.

    ``prepare`` turns the numpy arrays into what the package takes (a torch tensor, a data frame); it is not timed.
    ``judged`` are the same methods with results in the form that ``judge.py`` reads, where that costs time.
    """
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    folder, family = Path(sys.argv[1]), Path(sys.argv[0]).stem.split("_")[0]
    data = prepare(load(folder / "timing"))
    answer = {"package": package, "versions": versions(package), "methods": list(methods)}
    if "--turns" not in sys.argv:
        print(json.dumps(answer | {"seconds": {name: _alone(method, data) for name, method in methods.items()}}))
        return
    print(json.dumps(answer), flush=True)
    for line in sys.stdin:
        command, _, name = line.strip().partition(" ")
        try:
            if command == "time":
                turn = timed(methods[name], data)
            elif command == "check":
                result, megabytes = with_peak_memory((judged or methods)[name], data)
                truth = load(folder / "timing")
                turn = judge.agreement(family, name, result, truth, folder, reference=package == "caveat")
                turn["memory_mb"] = megabytes
            else:
                turn = drawn(family, name, (judged or methods)[name], folder / "draws", prepare)
        except Exception as problem:
            turn = {"problem": f"{type(problem).__name__}: {problem}"[:300]}
        print(json.dumps(turn), flush=True)


def load(folder: Path) -> SimpleNamespace:
    """The arrays of a folder and the numbers of its ``settings.json``."""
    arrays = {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}
    return SimpleNamespace(**arrays, **json.loads((folder / "settings.json").read_text()))


def timed(method: Method, data: Any) -> dict[str, Any]:
    """Wall seconds of both halves of one run, and CPU seconds; means over enough runs to be measurable."""
    first, second = method
    gc.collect()
    seconds = np.zeros(2)
    runs, cpu = 0, time.process_time()
    while runs == 0 or (seconds.sum() < MEASURABLE and runs < MOST_RUNS):
        start = time.perf_counter()
        state = first(data)
        middle = time.perf_counter()
        second(state, data)
        seconds += middle - start, time.perf_counter() - middle
        runs += 1
    return {"first": seconds[0] / runs, "second": seconds[1] / runs, "cpu": (time.process_time() - cpu) / runs}


def _alone(method: Method, data: Any) -> list[float] | str:
    try:
        timed(method, data)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return [round(turn["first"] + turn["second"], 6) for turn in (timed(method, data) for _ in range(ALONE))]


def with_peak_memory(method: Method, data: Any) -> tuple[Any, float | None]:
    """Result of one run, and the megabytes that it needs above what the process holds before it.

    None where the system is not Linux. The first run pays for lazy imports and compiled functions, so a second one is
    measured unless the first was slow.
    """
    start = time.perf_counter()
    result, megabytes = _measured(method, data)
    return (result, megabytes) if time.perf_counter() - start > SLOW else _measured(method, data)


def _measured(method: Method, data: Any) -> tuple[Any, float | None]:
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # the peak restarts from the present size
        before = _status("VmRSS")
    except OSError:
        return method[1](method[0](data), data), None
    result = method[1](method[0](data), data)
    return result, round((_status("VmHWM") - before) / 1024, 1)


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def drawn(family: str, name: str, method: Method, folder: Path, prepare: Callable[[Any], Any]) -> dict[str, Any]:
    """Delivered level and size over the repeated draws: the leading axis of every array."""
    everything = load(folder)
    arrays = {key: value for key, value in vars(everything).items() if isinstance(value, np.ndarray)}
    numbers = {key: value for key, value in vars(everything).items() if key not in arrays}
    outcomes = []
    for i in range(everything.draws):
        raw = SimpleNamespace(**{key: value[i] for key, value in arrays.items()}, **numbers, draw=i)
        data = prepare(SimpleNamespace(**vars(raw)))
        outcomes.append(judge.outcome(family, name, method[1](method[0](data), data), raw))
    return judge.summary(outcomes)


def versions(package: str) -> dict[str, str]:
    """Versions of the package, of Python and of the libraries that decide the speed."""
    names = {"python": platform.python_version()}
    for name in dict.fromkeys((package, "numpy", "scipy", "scikit-learn", "torch")):
        try:
            names[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return names


def stand_in(*names: str) -> None:
    """Put inert modules in place of packages that a peer imports but the timed calls do not use.

    torchvision has no build for the CPU build of torch used here, so a peer that imports it at the top would not load.
    Every attribute of such a module is an empty class. Packages that are installed are left alone.
    """
    import importlib.abc
    import importlib.machinery
    import importlib.util
    import types

    absent = {name for name in names if importlib.util.find_spec(name) is None}

    class Inert(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {"__init__": lambda self, *_, **__: None})

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
            if fullname.partition(".")[0] in absent:
                return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
            return None

        def create_module(self, spec: Any) -> types.ModuleType:
            return Inert(spec.name)

        def exec_module(self, module: types.ModuleType) -> None:
            """Nothing to run."""

    sys.meta_path.insert(0, Finder())
