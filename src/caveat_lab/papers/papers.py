"""Every table and figure of the papers: which command or test answers it, and whether ours agrees.

``papers.toml`` in the folder of the studies has one ``[[paper]]`` per paper and one ``[[paper.answers]]`` per table or
figure, or per part of one. The result of each is one of :data:`RESULTS`:

- ``agree``: the published numbers come out, or, on other data, the same finding;
- ``differ``: they do not; ``cause`` says why. It is tested by the files of ``tested``, or a guess if there are none;
- ``not answerable``: the data it needs are not here, or nothing in it can be computed;
- ``open``: it could be answered here and is not yet, or not in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from caveat._internal.checks import as_list, check_known
from caveat._internal.files import read_toml
from caveat.errors import InputError
from caveat_lab.experiments.loading import load, naming, typed
from caveat_lab.papers.agreement import Agreement, Part

__all__ = ["RESULTS", "Answer", "Paper", "items", "read_papers"]

RESULTS = ("agree", "differ", "not answerable", "open")
_FILE = "papers.toml"
_ITEM = re.compile(r"(Table|Figure)s? (\d+)(?: (to|and) (\d+))?")


@final
@dataclass(frozen=True)
class Answer:
    """One row: a table or figure, or a part of one, and how ours compares with it."""

    what: str  # "Table 4", "Table 4, SVHN", "Figures 15 to 22"
    shows: str
    result: str
    why: str  # the difference in numbers, or what is missing
    by: tuple[str, ...] = ()  # names of reproductions, paths of tests
    data: str = ""
    parts: tuple[str, ...] = ()  # parts of the comparison of the first reproduction, by the start of their titles
    cause: str = ""  # of a difference
    tested: tuple[str, ...] = ()  # files that test the cause; a cause without one is a guess

    def __post_init__(self) -> None:
        check_known(self.result, RESULTS, f"result of {self.what}")
        items(self.what)
        if (self.result == "differ") != bool(self.cause):
            raise InputError(f"{self.what}: a cause is needed where the result is 'differ', and nowhere else.")

    def explanation(self, comparisons: Mapping[str, Agreement | None]) -> str:
        """How many numbers or findings agree, what differs, and the cause, or that the cause is a guess."""
        compared = self.compared(comparisons)
        sentences = (
            [f"{sum(p.agree for p in compared)} of {sum(p.compared for p in compared)} agree."] if compared else []
        )
        sentences.append(self.why)
        if self.cause:
            sentences.append(f"{'Cause' if self.tested else 'Guess'}: {self.cause}")
        if self.tested:
            sentences.append(f"Tested in {', '.join(f'`{path}`' for path in self.tested)}.")
        return " ".join(sentences)

    def compared(self, comparisons: Mapping[str, Agreement | None]) -> tuple[Part, ...]:
        """The parts that are named, in the comparison of the first reproduction that answers."""
        if not self.parts:
            return ()
        comparison = comparisons.get(self.by[0]) if self.by else None
        parts = comparison.parts if comparison is not None else ()
        named = tuple(part for part in parts if part.title.startswith(self.parts))
        for start in self.parts:
            if not any(part.title.startswith(start) for part in named):
                raise InputError(f"{self.what}: no part of {self.by[0] if self.by else 'a reproduction'} starts with "
                                 f"{start!r}. Its parts: {', '.join(part.title for part in parts)}.")  # fmt: skip
        return named


@final
@dataclass(frozen=True)
class Paper:
    """A paper and the answers to its tables and figures, in the order of the paper."""

    name: str  # short: "Vovk et al."
    title: str
    answers: tuple[Answer, ...]


def read_papers(folder: Path) -> tuple[Paper, ...]:
    """The papers of a folder of studies; none if it has no ``papers.toml``.

    Examples
    --------
    >>> from caveat_lab.papers.reproductions import studies_folder
    >>> [paper.name for paper in read_papers(studies_folder())][-1]
    'Vovk et al.'
    """
    path = folder / _FILE
    if not path.exists():
        return ()
    content = read_toml(path)
    with naming(path):
        for key in content:
            check_known(key, ("paper",), "key")
        papers = as_list(content.get("paper", []), "paper")
        return tuple(load(Paper, typed(dict, paper, f"paper[{i}]"), f"paper[{i}]") for i, paper in enumerate(papers))


def items(what: str) -> tuple[str, ...]:
    """The tables and figures that a row is about.

    Examples
    --------
    >>> items("Table 4, SVHN"), items("Figures 3 and 5"), items("Tables 6 to 8")
    (('Table 4',), ('Figure 3', 'Figure 5'), ('Table 6', 'Table 7', 'Table 8'))
    """
    match = _ITEM.match(what)
    if match is None:
        raise InputError(
            f"a row must start with a table or figure, such as 'Table 4' or 'Figures 3 to 5', got {what!r}."
        )
    kind, first, joint, last = match.groups()
    numbers: Iterable[int] = (int(first),)
    if joint:
        numbers = range(int(first), int(last) + 1) if joint == "to" else (int(first), int(last))
    return tuple(f"{kind} {number}" for number in numbers)
