"""What a study found, read back from its store. Nothing is computed again, and the data are not needed."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._checks import check_known
from caveat._files import replacing_file
from caveat.errors import InputError
from caveat.study.expansion import variant_name
from caveat.study.plan import Plan
from caveat.study.schema import KINDS, Row
from caveat.study.store import Failure, Store

__all__ = ["StudyResults"]

Columns = dict[str, NDArray[Any]]


@final
class StudyResults:
    """The table of a study, its failures and how it came about. Read it with :meth:`read`; :func:`run` returns it.

    Cells are in the order of the plan and rows in the order of their cell, however the run went: one that was killed
    and resumed gives the same table, byte for byte.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._content = store.plan()

    @classmethod
    def read(cls, store: str | os.PathLike[str]) -> StudyResults:
        """The results in a store."""
        return cls(Store(store))

    # -- what was asked -----------------------------------------------------------------------------------------------

    @cached_property
    def plan(self) -> Plan:
        """The plan that the store was last run with."""
        return Plan.from_dict(
            self._content["plan"], folder=self._content["folder"], text=_text(self.store.folder / "plan.toml")
        )

    @property
    def title(self) -> str:
        return str(self._content["title"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What the plan left out because it does not exist or cannot be computed."""
        return tuple(self._content["notes"])

    @property
    def cells(self) -> tuple[Mapping[str, Any], ...]:
        """Every cell of the plan, in order: key, label, task, params, seed, fingerprints, version."""
        return tuple(self._content["cells"])

    # -- how it went --------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> tuple[Mapping[str, Any], ...]:
        """The cells that have a result."""
        return tuple(cell for cell in self.cells if self.store.has(cell["key"]))

    @property
    def missing(self) -> tuple[Mapping[str, Any], ...]:
        """The cells that have no result: not yet run, or failed."""
        return tuple(cell for cell in self.cells if not self.store.has(cell["key"]))

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The cells that failed, and why."""
        found = (self.store.failure(cell["key"]) for cell in self.cells)
        return tuple(failure for failure in found if failure is not None)

    def facts(self) -> Iterator[Mapping[str, Any]]:
        """Of each finished cell: key, label, params, seed, fingerprints, versions, seconds, caveats, and ``skipped``
        where the outputs did not allow it."""
        for cell in self.finished:
            yield self.store.facts(cell["key"])

    # -- what was found -----------------------------------------------------------------------------------------------

    def rows(self, kind: str | None = None, **where: Any) -> Iterator[Row]:
        """Rows as dicts, cell by cell: of one kind, and with the given values in the named columns.

        ``results.rows("metric", metric="auroc", outlier="svhn")``
        """
        for part in self._parts(kind, where):
            names = list(part)
            for values in zip(*(column.tolist() for column in part.values()), strict=True):
                yield dict(zip(names, values, strict=True))

    def columns(self, kind: str | None = None, **where: Any) -> Columns:
        """The same rows as arrays by column; empty arrays where there are none."""
        parts = list(self._parts(kind, where))
        if not parts:
            return {}
        names = list(dict.fromkeys(name for part in parts for name in part))
        if any(list(part) != names for part in parts):
            raise InputError(f"the cells have different columns ({', '.join(names)}). Read one kind, or use rows().")
        return {name: np.concatenate([part[name] for part in parts]) for name in names}

    def table(self, metric: str, *, errors: bool = False) -> Columns:
        """A long table of one metric for ``caveat.stats.compare``: source, seed, outlier, regime, method, value.

        A block is a source, a seed and an outlier set; a method is a score with its parameters and projection::

            compare(results.table("augrc"), block=["source", "seed", "outlier"], method="method", value="value")

        ``errors`` asks for the metric of the model's own errors on inliers, where there is no outlier set.
        """
        found = self.columns("metric", metric=metric)
        if found:
            keep = (found["score"] != "") & ((found["outlier"] == "") == errors)
            found = {name: column[keep] for name, column in found.items()}
        if not found or not found["value"].size:
            names = self.columns("metric")
            known = sorted(set(names["metric"].tolist())) if names else []
            check_known(metric, known, "metric in this study")
            raise InputError(f"no score of this study has the metric '{metric}'{' of errors' if errors else ''}.")
        method = [
            variant_name(*parts) for parts in zip(found["score"], found["params"], found["projection"], strict=True)
        ]
        wanted = {name: found[name] for name in ("source", "seed", "outlier", "regime")}
        return wanted | {"method": np.asarray(method, dtype=object), "value": found["value"]}

    def to_csv(self, path: str | os.PathLike[str], kind: str | None = None, **where: Any) -> Path:
        """Write the rows as CSV; the same results give the same bytes. NaN and what is missing are empty."""
        target = Path(path)
        names = list(dict.fromkeys(name for part in self._parts(kind, where) for name in part))
        with replacing_file(target) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(names)
            for row in self.rows(kind, **where):
                writer.writerow([_cell(row.get(name)) for name in names])
        return target

    def regimes(self) -> dict[tuple[str, int, str], str]:
        """(Source, seed, outlier set) -> near, mid or far: as the plan says, or by proximity where it says so."""
        return dict(self._regimes)

    @cached_property
    def _regimes(self) -> dict[tuple[str, int, str], str]:
        if self.plan.by_proximity:
            found = {}
            for cell in self.finished:
                if cell["task"] == "proximity":
                    for row in self.store.read(cell["key"]).table.to_pylist():
                        found[row["source"], row["seed"], row["outlier"]] = row["regime"]
            return found
        return {
            (source.name, seed, name): file.regime
            for source in self.plan.sources.values()
            for seed in self.plan.seeds
            for name, file in source.outliers.items()
        }

    def _parts(self, kind: str | None, where: Mapping[str, Any]) -> Iterator[Columns]:
        """The wanted columns of each cell that has such rows."""
        if kind is not None:
            check_known(kind, KINDS, "kind of row")
        for cell in self.finished:
            table = self.store.read(cell["key"], kind=kind).table
            part = {name: table[name].combine_chunks().to_numpy(zero_copy_only=False) for name in table.column_names}
            if "kind" in part and self.plan.sources:
                part["regime"] = self._in_regimes(part)
            for name, wanted in where.items():
                check_known(name, part, "column")
                kept = part[name] == wanted
                part = {key: column[kept] for key, column in part.items()}
            if part and next(iter(part.values())).size:
                yield part

    def _in_regimes(self, part: Columns) -> NDArray[Any]:
        """The regime of each row: it belongs to the plan, so that a change of it computes nothing again."""
        keys = zip(part["source"].tolist(), part["seed"].tolist(), part["outlier"].tolist(), strict=True)
        return np.asarray([self._regimes.get(key, "") for key in keys], dtype=object)

    def __repr__(self) -> str:
        return (
            f"StudyResults({self.title!r}, {len(self.finished)} of {len(self.cells)} cells, "
            f"{len(self.failures)} failed)"
        )


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return value if isinstance(value, str) else json.dumps(value) if isinstance(value, bool) else repr(value)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
