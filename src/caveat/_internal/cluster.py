"""A Dask client from an address or from a number of processes on this machine."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from caveat.errors import InputError, MissingExtraError

_PATIENCE = 10.0  # seconds to wait for a scheduler
_ADDRESS = re.compile(r"((tcp|tls|wss?|ucx)://)?[^/\s]+:\d{1,5}")


def check_address(address: str) -> str:
    """The address if it can be one. Dask would try any text, and hang when it gives up."""
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise InputError(f"scheduler must be an address such as tcp://10.0.0.1:8786, got {address!r}.")
    return address


def dask_distributed(what: str = "a Dask scheduler") -> Any:
    """The package ``distributed``, or a MissingExtraError."""
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise MissingExtraError(what, extra="scale") from None


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at this address, closed at the end."""
    dask = dask_distributed()
    try:
        client = dask.Client(check_address(address), timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"there is no Dask scheduler at {address} ({error}). Check the address.") from None
    with client:
        check_workers(client, address)
        yield client


def check_workers(client: Any, where: str) -> int:
    """How many threads the workers have together; none is an InputError."""
    threads = sum(client.nthreads().values())
    if not threads:
        raise InputError(f"the Dask scheduler at {where} has no workers. Start some.")
    return int(threads)


@contextmanager
def local_processes(workers: int) -> Iterator[Any]:
    """A client of so many worker processes on this machine, of one thread each; they end with the block."""
    dask = dask_distributed("several processes")
    # Without a dashboard Dask still opens its HTTP port, 8787, and warns where that is taken: any free port will do.
    cluster = dask.LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
    )  # fmt: skip
    try:
        with dask.Client(cluster, set_as_default=False) as client:
            yield client
    finally:
        with suppress(TimeoutError):  # on a busy machine workers end later than Dask waits, and the results are here
            cluster.close()
