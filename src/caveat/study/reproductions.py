"""Tables and figures of papers that Caveat reproduces: each is a folder of ``studies/`` with a plan and a summary.

A folder with a ``reproduction.toml`` is a reproduction; nothing else has to be registered. That file names the paper,
the tables, the data and the time. The folder also holds

- ``plan.toml``, what is computed; and ``fresh.toml`` where the plan takes results of earlier runs that the study keeps;
- ``summary.py`` with ``summary(rows, out) -> Agreement``: tables and figures from the rows of a finished run, and how
  they compare with the paper;
- ``comparison.json``, that comparison for the run whose tables are committed.

The folders are part of the installed package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

from caveat._internal.checks import as_kind, check_known
from caveat._internal.files import read_toml
from caveat.errors import InputError
from caveat.study.agreement import Agreement
from caveat.study.loading import load, naming, typed

__all__ = ["DataFile", "Reproduction", "find_reproduction", "reproductions", "studies_folder"]

_FACTS = "reproduction.toml"


@final
@dataclass(frozen=True)
class DataFile:
    """A file of the folder that the environment variable CAVEAT_DATA names."""

    name: str
    what: str
    origin: str

    @property
    def path(self) -> Path | None:
        """Where it is; None if it is not there or CAVEAT_DATA is not set."""
        folder = os.environ.get("CAVEAT_DATA")
        place = Path(folder) / self.name if folder else None
        return place if place is not None and place.exists() else None


@final
@dataclass(frozen=True)
class Reproduction:
    """What is reproduced, from which data, how long it takes, and where its study is."""

    name: str
    title: str
    paper: str
    reproduces: str
    time: str
    folder: Path
    data: tuple[DataFile, ...] = ()
    differs: tuple[str, ...] = ()  # what is not as in the paper, and why
    cite: str = ""  # short: "Vovk et al."; default: the authors as the paper names them
    order: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "cite", self.cite or self.paper.split('"')[0].rstrip(", "))

    @property
    def plan(self) -> Path:
        """The plan that ``caveat reproduce`` runs."""
        return self.folder / "plan.toml"

    @property
    def fresh_plan(self) -> Path:
        """The plan that takes nothing from earlier runs that the study keeps; the same where it keeps none."""
        fresh = self.folder / "fresh.toml"
        return fresh if fresh.exists() else self.plan

    @property
    def missing(self) -> tuple[DataFile, ...]:
        """Data files that are not here."""
        return tuple(file for file in self.data if file.path is None)

    @cached_property
    def committed(self) -> Agreement | None:
        """How the last committed run compares with the paper."""
        path = self.folder / "comparison.json"
        return Agreement.read(path) if path.exists() else None

    def check_data(self) -> None:
        """Raise InputError that names the missing files and where to get them."""
        if not self.missing:
            return
        folder = os.environ.get("CAVEAT_DATA")
        where = f"which CAVEAT_DATA ({folder}) does not hold" if folder else "and CAVEAT_DATA names no folder"
        names = ", ".join(file.name for file in self.missing)
        origins = "".join(f"\n  {file.name}: {file.what} {file.origin}" for file in self.missing)
        raise InputError(f"{self.name} needs {names}, {where}. Put the data there:{origins}")

    def summarise(self, rows: list[dict[str, Any]], out: Path) -> Agreement:
        """Tables and figures of a finished run, written to ``out``, and its comparison with the paper."""
        from caveat.study.functions import find_function

        file = self.folder / "summary.py"
        out.mkdir(parents=True, exist_ok=True)
        agreement: Agreement = find_function("summary.py:summary", str(file))(rows, out)
        as_kind(agreement, Agreement, f"what {file} returns")
        agreement.write(out / "comparison.json")
        return agreement


def studies_folder() -> Path:
    """The folder of all studies: of the source tree if Caveat runs from one, else the copy inside the package."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parents[1] / "studies", package / "_studies"):
        if any(folder.glob(f"*/{_FACTS}")):
            return folder
    raise InputError("the studies are not here: neither in the source tree nor in the package. Install Caveat again.")


def reproductions(folder: Path | None = None) -> tuple[Reproduction, ...]:
    """Every reproduction, in the order of the list.

    Examples
    --------
    >>> [one.name for one in reproductions()][:2]
    ['openood-corrections', 'adbench']
    """
    where = studies_folder() if folder is None else folder
    files = _data_files(where)
    studies = [_read(path, files) for path in where.glob(f"*/{_FACTS}")]
    return tuple(sorted(studies, key=lambda one: (one.order, one.name)))


def find_reproduction(name: str) -> Reproduction:
    """The reproduction of that name; an unknown one is an error that suggests the right one."""
    by_name = {one.name: one for one in reproductions()}
    return by_name[check_known(name, by_name, "reproduction")]


def _read(path: Path, files: Mapping[str, DataFile]) -> Reproduction:
    def data(names: Any, where: str) -> tuple[DataFile, ...]:
        names = typed(tuple[str, ...], names, where) if names else ()
        return tuple(files[check_known(name, files, "file of studies/data.toml")] for name in names)

    content = read_toml(path)
    with naming(path):
        return load(Reproduction, content, read={"data": data}, folder=path.parent)


def _data_files(folder: Path) -> dict[str, DataFile]:
    path = folder / "data.toml"
    content = read_toml(path) if path.exists() else {}
    with naming(path):
        return {name: load(DataFile, typed(dict, facts, name), name, name=name) for name, facts in content.items()}
