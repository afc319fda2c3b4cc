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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

from caveat._internal.checks import as_kind, check_known
from caveat._internal.files import read_toml
from caveat.errors import InputError
from caveat_lab.experiments.loading import load, naming, typed
from caveat_lab.papers.agreement import Agreement, Check
from caveat_lab.papers.papers import RESULTS, Paper, read_papers

__all__ = ["DataFile", "Reproduction", "find_reproduction", "reproduction_page", "reproductions", "studies_folder"]

_FACTS = "reproduction.toml"
_TOP = """# What the papers report, and what comes out here

Every table and every figure of the papers has a row. The result is one of

- **agree**: the published numbers come out. On other data than the paper's, the same finding comes out.
- **differ**: they do not. The row gives the difference and its cause. A cause that no test supports is called a guess.
- **not answerable**: the data it needs are not available here, or it holds nothing that can be computed.
- **open**: it could be answered here and is not yet, or not in full.
"""
_STUDIES = """
## The studies

`caveat reproduce --list` shows them on a terminal, `caveat reproduce NAME` runs one again: its plan into `runs/NAME`
(it can be stopped and resumed), then its tables and figures, then our numbers next to the published ones. Every
difference is listed with its reason.

This page is made by `caveat reproduce --docs docs/reproduction.md` from the comparisons that the studies keep and from
`studies/papers.toml`; do not edit it by hand.
"""


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

    def summarize(self, rows: list[dict[str, Any]], out: Path) -> Agreement:
        """Tables and figures of a finished run, written to ``out``, and its comparison with the paper."""
        from caveat_lab.experiments.functions import find_function

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


# -- the page of all reproductions, in Markdown ------------------------------------------------------------------------


def reproduction_page(all_of_them: Iterable[Reproduction], papers: Iterable[Paper] | None = None) -> str:
    """The whole page: the tables and figures of the papers, then the studies. The same studies give the same text."""
    studies = [(one, one.committed) for one in all_of_them]
    papers = read_papers(studies_folder()) if papers is None else tuple(papers)
    rows = [
        (f"[`{one.name}`](#{one.name})", one.reproduces, *((str(agreement.compared), str(agreement.agree)) if agreement
                                                           else ("not yet run", "")), one.time)
        for one, agreement in studies
    ]  # fmt: skip
    lines = [_TOP, *_answers(papers, {one.name: agreement for one, agreement in studies}), _STUDIES]
    lines += _table("name | reproduces | compared: | agree: | time", rows)
    for one, agreement in studies:
        lines += ["", f"## {one.name}", "", *_study(one, agreement)]
    return "\n".join(lines) + "\n"


def _answers(papers: Iterable[Paper], comparisons: Mapping[str, Agreement | None]) -> list[str]:
    """One row per table or figure of every paper, and how many rows have which result."""
    rows = [
        (paper.name, f"{answer.what}: {answer.shows}", ", ".join(_command(name, comparisons) for name in answer.by),
         answer.data, f"**{answer.result}**", answer.explanation(comparisons))
        for paper in papers for answer in paper.answers
    ]  # fmt: skip
    results = [answer.result for paper in papers for answer in paper.answers]
    counts = ", ".join(f"{results.count(result)} {result}" for result in RESULTS)
    return [
        f"{len(rows)} rows: {counts}.",
        "",
        *_table("paper | table or figure | answered by | data | result | why", rows),
    ]


def _command(name: str, comparisons: Mapping[str, Agreement | None]) -> str:
    """The command of a reproduction, with a link to its section; else the path of a test."""
    return f"[`caveat reproduce {name}`](#{name})" if name in comparisons else f"`{name}`"


def _study(one: Reproduction, agreement: Agreement | None) -> list[str]:
    data = ", ".join(f"`{file.name}`" for file in one.data) or "none beyond the study's folder"
    lines = [
        f"**{one.title}.** {one.paper}. {one.reproduces}.", "", f"    caveat reproduce {one.name}", "",
        f"Time: {one.time}. Data: {data}. More: [studies/{one.folder.name}](../studies/{one.folder.name}/README.md).",
        "",
    ]  # fmt: skip
    by_reason: dict[str, list[Check]] = {}
    if agreement is not None:
        parts = [(part.title, str(part.compared), str(part.agree), part.rule,
                  "" if part.largest is None else f"{part.largest:.3g}") for part in agreement.parts]  # fmt: skip
        lines += _table("part | compared: | agree: | counts as agreement | largest difference:", parts)
        checks = [check for part in agreement.parts for check in part.checks]
        if any(check.agrees for check in checks):
            lines += ["", "What agrees:", "", *_checks(check for check in checks if check.agrees)]
        for check in checks:
            if not check.agrees:
                by_reason.setdefault(check.why or "not explained", []).append(check)
    lines += ["", "What differs, by reason:"] if by_reason else []
    for why, differences in by_reason.items():
        lines += ["", f"*{why[:1].upper()}{why[1:].removesuffix('.')}.*", "", *_checks(differences)]
    if one.differs:
        lines += ["", "What is not as in the paper:", "", *(f"- {sentence}" for sentence in one.differs)]
    return lines


def _checks(checks: Iterable[Check]) -> list[str]:
    return _table("what | published | ours", [(check.what, check.published, check.ours) for check in checks])


def _table(headings: str, rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table; a heading that ends with a colon is one of numbers."""
    names = headings.split(" | ")
    lines = [f"| {' | '.join(name.removesuffix(':') for name in names)} |"]
    lines.append(f"|{'|'.join('---:' if name.endswith(':') else '---' for name in names)}|")
    for row in rows:
        cells = (cell.replace("|", "\\|").replace("\n", " ") for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return lines
