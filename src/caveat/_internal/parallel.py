"""Threads of our own, with one BLAS thread each: the steps between the matrix products then run on all cores too."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar, final

T = TypeVar("T")
R = TypeVar("R")

_lock = threading.Lock()
_holders = 0  # calls that hold BLAS at one thread now
_workers = 1  # how many threads BLAS had before
_lowered: list[tuple[Any, int]] = []  # BLAS libraries and the number of threads to put back
_this_thread = threading.local()  # has ``is_ours`` in the threads started here


def map_in_threads(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """``[function(item) for item in items]``, on as many threads as BLAS would use, and so within its limits.

    The function must spend its time where numpy lets go of the interpreter lock (products, comparisons, sorting).

    >>> map_in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    work = list(items)
    if len(work) < 2:
        return [function(item) for item in work]
    return map_parts_in_threads(function, lambda _: work)


def map_parts_in_threads(function: Callable[[T], R], parts: Callable[[int], Iterable[T]]) -> list[R]:
    """``function`` of every part of work that ``parts`` makes for a number of threads.

    A part is made when a thread is about to be free, so few are held at a time. Inside a thread of ours there is one
    thread only.

    >>> map_parts_in_threads(sum, lambda workers: ([i] * 2 for i in range(3)))
    [0, 2, 4]
    """
    return list(stream_in_threads(function, parts))


def stream_in_threads(function: Callable[[T], R], parts: Callable[[int], Iterable[T]]) -> Iterator[R]:
    """What ``map_parts_in_threads`` gives, one result after the other, so that few are held at a time."""
    if getattr(_this_thread, "is_ours", False):
        yield from map(function, parts(1))
        return
    with OneBlasThread() as workers:
        if workers == 1:
            yield from map(function, parts(1))
            return
        with ThreadPoolExecutor(workers, initializer=setattr, initargs=(_this_thread, "is_ours", True)) as pool:
            yield from _in_order(pool, function, parts(workers), at_once=workers + 1)


@contextmanager
def single_thread() -> Iterator[None]:
    """One thread and one BLAS thread: blocks, and with them the last bits of a result, depend on the data alone."""
    before = getattr(_this_thread, "is_ours", False)
    with OneBlasThread():
        _this_thread.is_ours = True
        try:
            yield
        finally:
            _this_thread.is_ours = before


def _in_order(pool: ThreadPoolExecutor, function: Callable[[T], R], parts: Iterable[T], at_once: int) -> Iterator[R]:
    waiting: deque[Future[R]] = deque()
    try:
        for part in parts:
            waiting.append(pool.submit(function, part))
            if len(waiting) == at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


@final
class OneBlasThread:
    """Hold BLAS at one thread where that can be done; ``with`` gives the number of threads to use instead.

    The number of BLAS threads belongs to the process. The first call lowers it, and the last one that still holds it
    puts it back, so that no product in between runs on several threads: its last bits can depend on how many. Where
    BLAS does not listen, it keeps its threads and we use none.
    """

    def __enter__(self) -> int:
        global _holders, _workers  # noqa: PLW0603
        with _lock:
            if _holders == 0:
                libraries = _blas_libraries(len(sys.modules))
                before = [(library, library.num_threads) for library in libraries]
                _workers = max((threads for _, threads in before), default=1)
                _lowered.extend((library, threads) for library, threads in before if threads != 1)
                for library, _ in _lowered:
                    _set_threads(library, 1)
                if any(library.num_threads != 1 for library, _ in _lowered):
                    _put_back()
                    _workers = 1
            _holders += 1
            return _workers

    def __exit__(self, *error: object) -> None:
        global _holders  # noqa: PLW0603
        with _lock:
            _holders -= 1
            if _holders == 0:
                _put_back()


def _put_back() -> None:
    for library, threads in _lowered:
        _set_threads(library, threads)
    _lowered.clear()


def _set_threads(library: Any, threads: int) -> None:
    # From threadpoolctl 3.8 on, its public call does nothing in all threads but the one that set a number before.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


@lru_cache(maxsize=1)
def _blas_libraries(modules: int) -> tuple[Any, ...]:
    """The BLAS libraries of this process. Finding them takes a millisecond; new ones come with new modules."""
    from threadpoolctl import ThreadpoolController

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
