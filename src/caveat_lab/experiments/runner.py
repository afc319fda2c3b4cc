"""The runner: computes the cells that a store lacks, here, in processes, or on a Dask cluster."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

from caveat._internal.checks import as_count, check_known
from caveat._internal.cluster import check_address, check_workers, connected, dask_distributed
from caveat.errors import CaveatWarning, StoreError
from caveat.evaluation.findings import versions
from caveat.evaluation.records import Data
from caveat_lab.experiments.cells import Cell
from caveat_lab.experiments.expansion import expand
from caveat_lab.experiments.networks import network_is_sound
from caveat_lab.experiments.plan import Plan
from caveat_lab.experiments.readiness import check_data_here, check_networks
from caveat_lab.experiments.sources import made_outputs_are_sound
from caveat_lab.experiments.store import Failure, Store
from caveat_lab.experiments.study_results import StudyResults
from caveat_lab.experiments.tasks import compute

__all__ = ["Outcome", "StudyProgress", "run"]

_STAGES = ("train", "outputs", "")  # in this order: each reads what the one before has made


@final
@dataclass(frozen=True)
class Outcome:
    """How one cell ended: computed, found finished by another run, or failed.

    Parameters
    ----------
    key, label
        Key of the cell, and what it is in words.
    status
        ``"done"``, ``"found"`` or ``"failed"``.
    seconds
        How long the cell took.
    error
        Why it failed, or empty.

    Examples
    --------
    >>> Outcome("1f2e", "msp on a, seed 0", "done", 0.3).status
    'done'
    """

    key: str
    label: str
    status: Literal["done", "found", "failed"]
    seconds: float
    error: str = ""


@final
@dataclass(frozen=True)
class StudyProgress:
    """How far a run is.

    Parameters
    ----------
    total
        Number of cells of the plan.
    already
        Number of cells that the store had before.
    done, failed
        Number of cells that this run finished, and that failed.
    running
        Labels of the cells under way.
    seconds
        Time since the run started.
    latest
        The cell that just ended, or None.

    Examples
    --------
    >>> StudyProgress(total=10, already=2, done=3, failed=1, running=(), seconds=8.0).left
    8.0
    """

    total: int
    already: int
    done: int
    failed: int
    running: tuple[str, ...]
    seconds: float
    latest: Outcome | None = None

    @property
    def left(self) -> float | None:
        """Seconds that the rest may take at the pace so far; None before the first cell."""
        ended = self.done + self.failed
        if not ended:
            return None
        return self.seconds / ended * (self.total - self.already - ended)


def run(
    plan: Plan | str | os.PathLike[str],
    *,
    store: str | os.PathLike[str],
    jobs: int = 1,
    scheduler: str | None = None,
    progress: Callable[[StudyProgress], None] | None = None,
) -> StudyResults:
    """Compute every cell of a plan that the store does not hold yet.

    May be stopped or killed at any moment and called again: finished cells are kept, those that failed are tried again.
    A failing cell is recorded with its error and stops nothing else. Two runs on one store share the work.

    Parameters
    ----------
    plan
        A plan, or the path of one.
    store
        Folder for the results, such as ``runs/x``.
    jobs
        Processes on this machine; 1 computes here.
    scheduler
        Address of a Dask scheduler, such as ``"tcp://127.0.0.1:8786"``, in place of ``jobs``. Its workers must see the
        plan's files and the store under the same paths.
    progress
        Called at the start and when a cell begins or ends; one call at a time, from any thread.

    Returns
    -------
    StudyResults
        Everything the store now holds for this plan; ``failures`` says what did not work.

    Examples
    --------
    >>> import tempfile
    >>> from caveat import Outputs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Outputs(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]] * 20, labels=[0, 1, 1] * 20).save(f"{folder}/a.npz")
    ...     plan = Plan.from_dict({"scores": ["msp"], "sources": {"a": {"inlier": "a.npz"}}}, folder=folder)
    ...     results = run(plan, store=f"{folder}/runs")
    ...     len(results.finished), results.failures
    (2, ())
    """
    as_count(jobs, "jobs")
    if scheduler is not None:
        check_address(scheduler)
    if not isinstance(plan, Plan):
        plan = Plan.read(plan)
    check_data_here(plan)
    cells, notes = expand(plan)
    kept = Store(Path(store).resolve())
    kept.prepare(plan, cells, notes)
    missing = _missing(kept, cells)
    if not missing:  # a finished study may be read-only
        _check_outliers(plan, kept, cells)
        _Teller(len(cells), len(cells), progress)
        return StudyResults.read(kept.folder)
    if any(cell.task in ("train", "outputs") for cell in missing):
        check_networks(plan, here=scheduler is None)
    with kept.at_work() as others:
        if others:  # from the other end, so that two runs meet in the middle
            missing.reverse()
        tell = _Teller(len(cells), len(cells) - len(missing), progress)
        # What a task makes comes first: other cells read it.
        for stage in _STAGES:
            ready, waiting = _split(kept, cells, [cell for cell in missing if _stage(cell) == stage])
            for cell, why in waiting:
                kept.write_failure(Failure(cell.key, cell.label, "SourceError", why, ""))
                tell.ended(Outcome(cell.key, cell.label, "failed", 0.0, why))
            _compute(ready, kept, jobs, scheduler, tell)
            if stage == "outputs":
                _check_outliers(plan, kept, cells)
    return StudyResults.read(kept.folder)


def work(cell: Cell, folder: str) -> Outcome:
    """Compute one cell and write it, in whatever process this is. Only a store that cannot be written raises."""
    store, started = Store(folder), time.perf_counter()
    if store.has(cell.key):
        return Outcome(cell.key, cell.label, "found", 0.0)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", CaveatWarning)
            content = compute(cell, store)
        seconds = time.perf_counter() - started
        caveats = list(dict.fromkeys(str(warning.message) for warning in caught))
        store.write(cell, content, {"seconds": round(seconds, 3), "versions": dict(versions()), "caveats": caveats})
    except StoreError:
        raise
    except (Exception, SystemExit) as error:
        name, message = type(error).__name__, str(error) or type(error).__name__
        store.write_failure(Failure(cell.key, cell.label, name, message, traceback.format_exc()))
        return Outcome(cell.key, cell.label, "failed", time.perf_counter() - started, f"{name}: {message}")
    return Outcome(cell.key, cell.label, "done", seconds)


def _missing(store: Store, cells: Sequence[Cell]) -> list[Cell]:
    """Cells to compute. A damaged file counts as missing; outputs that are gone or damaged are made again."""
    missing = []
    for cell in cells:
        if store.has(cell.key) and not store.is_sound(cell.key):
            warnings.warn(f"the cell '{cell.label}' was damaged and is computed again.", CaveatWarning, stacklevel=3)
            store.forget(cell.key)
        if not store.has(cell.key):
            missing.append(cell)
    for stage, folder, is_sound in (("outputs", store.outputs, made_outputs_are_sound),
                                    ("train", store.model, network_is_sound)):  # fmt: skip
        needed = {cell.needs for cell in missing}
        for cell in cells:
            if cell.task == stage and cell.key in needed and store.has(cell.key) and not is_sound(folder(cell.key)):
                store.forget(cell.key)
                missing.insert(0, cell)
    return missing


def _stage(cell: Cell) -> str:
    return cell.task if cell.task in _STAGES else ""


def _check_outliers(plan: Plan, store: Store, cells: Sequence[Cell]) -> None:
    """Raise InputError where the plan gives a regime to an outlier set that a task did not make."""
    for cell in cells:
        if cell.task == "outputs" and store.has(cell.key):
            source = cell.params["source"]
            made = [record.block.outlier for record in store.records(cell.key, [Data])]
            for name in plan.sources[source].outliers:
                check_known(name, made, f"outlier set in sources.{source}.outliers")


def _split(store: Store, cells: Sequence[Cell], missing: list[Cell]) -> tuple[list[Cell], list[tuple[Cell, str]]]:
    """The missing cells whose outputs are there, and the others with the reason."""
    makers = {cell.key: cell for cell in cells if cell.task in _STAGES}
    ready, waiting = [], []
    for cell in missing:
        if not cell.needs or store.has(cell.needs):
            ready.append(cell)
            continue
        failure = store.failure(cell.needs)
        why = failure.message if failure else "they were not made"
        maker = makers[cell.needs]
        what = f"the outputs of {maker.params['source']}" if maker.task == "outputs" else maker.label
        waiting.append((cell, f"{what} failed: {why}"))
    return ready, waiting


class _Teller:
    """Counts cells and reports progress."""

    def __init__(self, total: int, already: int, progress: Callable[[StudyProgress], None] | None) -> None:
        self.total, self.already, self.progress = total, already, progress
        self.done = self.failed = 0
        self.started = time.perf_counter()
        self.under_way: dict[str, str] = {}
        self.jobs = 1
        self.lock = threading.Lock()
        self._tell(None)

    def begun(self, cell: Cell) -> None:
        self.under_way[cell.key] = cell.label
        self._tell(None)

    def ended(self, outcome: Outcome) -> None:
        self.under_way.pop(outcome.key, None)
        self.failed += outcome.status == "failed"
        self.done += outcome.status != "failed"
        self._tell(outcome)

    def _tell(self, latest: Outcome | None) -> None:
        if self.progress is None:
            return
        with self.lock:  # joblib begins cells from a thread of its own
            running = tuple(list(self.under_way.values())[: self.jobs])
            seconds = time.perf_counter() - self.started
            self.progress(StudyProgress(self.total, self.already, self.done, self.failed, running, seconds, latest))


def _compute(cells: list[Cell], store: Store, jobs: int, scheduler: str | None, tell: _Teller) -> None:
    if not cells:
        return
    tell.jobs = jobs
    if scheduler is not None:
        outcomes = _on_dask(cells, store, scheduler, tell)
    elif jobs == 1 or len(cells) == 1:
        outcomes = _here(cells, store, tell)
    else:
        outcomes = _in_processes(cells, store, jobs, tell)
    with contextlib.closing(outcomes):
        for outcome in outcomes:
            tell.ended(outcome)


def _here(cells: list[Cell], store: Store, tell: _Teller) -> Generator[Outcome]:
    for cell in cells:
        tell.begun(cell)
        yield work(cell, str(store.folder))


def _in_processes(cells: list[Cell], store: Store, jobs: int, tell: _Teller) -> Generator[Outcome]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    waiting = deque(cells)

    def calls() -> Iterator[Any]:
        while waiting:
            cell = waiting.popleft()
            tell.begun(cell)
            yield delayed(work)(cell, str(store.folder))

    while waiting:
        pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=2 * jobs)
        try:
            yield from pool(calls())
        except TerminatedWorkerError:  # which cell it was cannot be said: each that was under way gets its own process
            for cell in [cell for cell in cells if cell.key in tell.under_way]:
                yield _alone(cell, store)


def _alone(cell: Cell, store: Store) -> Outcome:
    """Compute a cell that may take its process with it."""
    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.process_executor import BrokenProcessPool

    started = time.perf_counter()
    with ProcessPoolExecutor(max_workers=1) as process:
        try:
            outcome: Outcome = process.submit(work, cell, str(store.folder)).result()
        except BrokenProcessPool:
            why = "its process was killed, most likely for want of memory"
            store.write_failure(Failure(cell.key, cell.label, "ProcessKilled", why, ""))
            return Outcome(cell.key, cell.label, "failed", time.perf_counter() - started, f"ProcessKilled: {why}")
    return outcome


def _on_dask(cells: list[Cell], store: Store, address: str, tell: _Teller) -> Generator[Outcome]:
    dask = dask_distributed()
    with connected(address) as client:
        threads = check_workers(client, address)
        tell.jobs = threads
        waiting = deque(cells)
        done = dask.as_completed([], loop=client.loop)

        def send() -> None:
            cell = waiting.popleft()
            tell.begun(cell)
            done.add(client.submit(work, cell, str(store.folder), pure=False, retries=2))

        for _ in range(min(len(waiting), 2 * threads)):  # a few ahead, never all of them at once
            send()
        for future in done:
            yield future.result()
            if waiting:
                send()
