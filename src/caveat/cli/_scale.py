"""The options that send fitting and scoring to workers, shared by several commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, final

import typer

from caveat.errors import InputError

__all__ = ["Scheduler", "Workers", "Workplace"]

Scheduler = Annotated[
    str | None,
    typer.Option(help="Read the files by row ranges on a Dask cluster: its address, such as tcp://10.0.0.1:8786."),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Read the files by row ranges in this many processes on this machine.")
]


@final
@dataclass(frozen=True)
class Workplace:
    """Whether files are read by row ranges, and by whom: ``client`` of ``caveat.scale``."""

    by_ranges: bool
    client: Any

    @classmethod
    def of(cls, scheduler: str | None, workers: int | None, paths: Iterable[Path | None]) -> Workplace:
        """From the options; Zarr and folders of Parquet files are always read by ranges."""
        if scheduler is not None and workers is not None:
            raise InputError("give --scheduler or --workers, not both.")
        from caveat._internal.cluster import check_address

        client = workers if scheduler is None else check_address(scheduler)
        stores = any(_is_store(path) for path in paths if path is not None)
        return cls(client is not None or stores, client)


def _is_store(path: Path) -> bool:
    return path.suffix == ".zarr" or (
        path.is_dir() and ((path / "zarr.json").exists() or (path / ".zgroup").exists() or any(path.glob("*.parquet")))
    )
