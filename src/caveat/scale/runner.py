"""Who computes the ranges: threads here, processes here, or a Dask cluster. One verb, ``reduce``, is the whole seam.

A runner of one's own (Ray, Spark; ``docs/scale.md`` has both) needs that verb alone: compute ``work(start, stop)`` for
every range, anywhere, and merge the results in the tree of :class:`caveat._internal.ranges.Tree`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, final, runtime_checkable

from caveat._internal.checks import as_count
from caveat._internal.cluster import check_workers, connected, dask_distributed, local_processes
from caveat._internal.parallel import single_thread, stream_in_threads
from caveat._internal.ranges import Range, Tree
from caveat.errors import CaveatError, InputError

__all__ = ["DaskRunner", "Runner", "Tell", "ThreadRunner", "compute", "running"]

T = TypeVar("T")
Work = Callable[[int, int], T]
Tell = Callable[[int, int], None]  # ranges done, and how many there are
_AHEAD = 8  # ranges under way per worker thread: the next one is there when one is done


@runtime_checkable
class Runner(Protocol):
    """Computes ranges and merges what they give.

    Examples
    --------
    >>> from caveat import Outputs
    >>> from caveat.scale import merge_in_tree, score
    >>> from caveat.scores import MaxLogit
    >>> class OneByOne:
    ...     def reduce(self, work, ranges, merge, tell):
    ...         return merge_in_tree([compute(work, start, stop) for start, stop in ranges], merge)
    >>> score(MaxLogit(), Outputs(logits=[[9.0, 0.0], [1.0, 1.0]]), client=OneByOne(), rows_per_task=1)
    array([-9., -1.])
    """

    def reduce(self, work: Work[T], ranges: Sequence[Range], merge: Callable[[T, T], T], tell: Tell) -> T:
        """``work(start, stop)`` of every range, merged in the fixed binary tree over the ranges in their order.

        ``work`` and ``merge`` can be pickled. Call ``compute(work, start, stop)`` where the work is done: it holds the
        process at one thread, on which the last bits of a result can depend.

        Parameters
        ----------
        work
            Computes the range from a first row up to another.
        ranges
            (start, stop) of each range.
        merge
            Merges the results of two neighbors.
        tell
            Called with the number of ranges done, and of all ranges.

        Returns
        -------
        object
            The merged result.
        """


def compute(work: Work[T], start: int, stop: int) -> T:
    """One range, on one thread.

    Parameters
    ----------
    work
        Function of the first row and the row after the last, such as a runner receives.
    start, stop
        The range.

    Returns
    -------
    object
        What ``work(start, stop)`` returns.

    Examples
    --------
    >>> compute(lambda start, stop: sum(range(start, stop)), 0, 5)
    10
    """
    with single_thread():
        return work(start, stop)


@final
class ThreadRunner:
    """The threads of this process."""

    def reduce(self, work: Work[T], ranges: Sequence[Range], merge: Callable[[T, T], T], tell: Tell) -> T:
        tree = Tree(merge)
        results = stream_in_threads(lambda rows: compute(work, *rows), lambda _: ranges)
        for done, result in enumerate(results, 1):
            tree.add(result)
            tell(done, len(ranges))
        return tree.root()


@final
@dataclass(frozen=True)
class DaskRunner:
    """The workers of a ``distributed.Client``.

    A few ranges per worker thread are under way at a time, and of what is finished the client holds one future per
    level of the tree, so neither the scheduler nor the workers fill up. A range whose worker died is computed again.
    """

    client: Any

    def reduce(self, work: Work[T], ranges: Sequence[Range], merge: Callable[[T, T], T], tell: Tell) -> T:
        dask, client, token = dask_distributed(), self.client, uuid.uuid4().hex
        ahead = _AHEAD * check_workers(client, str(getattr(client.scheduler, "address", "this address")))
        # A task, not scattered data: what a dead worker held can be made again.
        shared = client.submit(_itself, work, key=f"caveat-work-{token}")
        merges = iter(range(len(ranges)))

        def merged(one: Any, other: Any) -> Any:
            return client.submit(merge, one, other, key=f"caveat-merge-{token}-{next(merges)}", priority=1)

        tree: Tree[Any] = Tree(merged)
        waiting = dask.as_completed([], loop=client.loop)
        sent = done = 0
        try:
            while done < len(ranges):
                while sent < len(ranges) and sent - done < ahead:
                    future = client.submit(compute, shared, *ranges[sent], key=f"caveat-range-{token}-{sent}")
                    waiting.add(future)
                    tree.add(future)
                    sent += 1
                    del future
                finished = next(waiting)
                if finished.status == "error":
                    finished.result()  # raises what the worker raised
                del finished
                done += 1
                tell(done, len(ranges))
            result: T = tree.root().result()
        except dask.KilledWorker as error:
            raise CaveatError(f"workers died again and again on the same rows ({error}), most likely for want of "
                              "memory. Give them more, or fewer threads each.") from None  # fmt: skip
        return result


def _itself(work: Any) -> Any:
    return work


@contextmanager
def running(client: Any) -> Iterator[Runner]:
    """The runner for what a caller passed as ``client``; a cluster that is started here ends with the block."""
    if client is None:
        yield ThreadRunner()
    elif isinstance(client, str):
        with connected(client) as one:
            yield DaskRunner(one)
    elif isinstance(client, int):
        with local_processes(as_count(client, "client", most=4096)) as one:
            yield DaskRunner(one)
    elif isinstance(client, Runner):
        yield client
    elif hasattr(client, "submit") and hasattr(client, "nthreads"):
        yield DaskRunner(client)
    else:
        raise InputError(
            "client must be None (threads of this process), a number of processes, the address of a Dask scheduler, "
            f"a distributed.Client, or a runner with reduce; got a {type(client).__name__}."
        )
