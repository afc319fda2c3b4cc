"""Tables that are written three ways: on a page, in Markdown and in LaTeX. The same cells, so the same numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from caveat.report.words import STYLES, interval
from caveat.results import Comparison, Estimate

__all__ = [
    "Cell", "Column", "Group", "Table", "comparison_latex", "comparison_markdown", "count_cell", "latex", "latex_text",
    "make_table", "markdown", "markdown_text", "number_cell",
]  # fmt: skip


@final
@dataclass(frozen=True)
class Column:
    """A column; one that belongs to a regime can be filtered by it."""

    heading: str
    note: str = ""
    number: bool = True
    regime: str = ""


@final
@dataclass(frozen=True)
class Cell:
    """What a cell shows; ``value`` sorts."""

    text: str
    value: float | None = None
    interval: str = ""
    strong: bool = False
    mark: str = ""


Row = Sequence[Any]  # cells, and plain texts that become cells


@final
@dataclass(frozen=True)
class Group:
    """Rows under a common heading, which may be empty."""

    heading: str
    lines: Sequence[Row]
    source: str = ""
    regime: str = ""


@final
@dataclass(frozen=True)
class Table:
    """A table with its caption and the notes that its marks refer to. The column ``name`` holds the row's name."""

    key: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    notes: tuple[tuple[str, str], ...] = ()
    name: int = 0

    @property
    def size(self) -> int:
        """How many rows it has."""
        return sum(len(group.lines) for group in self.groups)


def make_table(
    key: str, title: str, caption: str, columns: Iterable[Any], lines: Iterable[Row] = (), *,
    groups: Iterable[Group] = (), notes: Iterable[tuple[str, str]] = (), name: int = 0,
) -> Table | None:  # fmt: skip
    """A table of rows, or of groups of rows; None without any. Plain text is a cell, or the heading of a text column.

    >>> make_table("t", "Scores", "", ["Score", Column("AUROC")]) is None
    True
    """
    kept = [
        Group(group.heading, tuple(tuple(Cell(cell) if isinstance(cell, str) else cell for cell in line)
                                   for line in group.lines), group.source, group.regime)
        for group in (*groups, Group("", tuple(lines)))
        if group.lines
    ]  # fmt: skip
    heads = tuple(Column(column, number=False) if isinstance(column, str) else column for column in columns)
    return Table(key, title, caption, heads, tuple(kept), tuple(notes), name) if kept else None


def number_cell(value: Estimate | float | None, style: str = "number", *, strong: bool = False, mark: str = "") -> Cell:
    """A number, with its interval if it has one."""
    if isinstance(value, Estimate):
        bounds = interval(value, style) if np.isfinite([value.lower, value.upper]).all() else ""
        value = value.value
    else:
        bounds = ""
    if value is None or not np.isfinite(value):
        return Cell("not measured")
    return Cell(STYLES[style](value), value, bounds, strong, mark)


def count_cell(n: int) -> Cell:
    """A number of samples."""
    return Cell(f"{n:,}", float(n))


def markdown(table: Table) -> str:
    """
    >>> line = ("a|b", Cell("0.91", 0.91, "[0.89, 0.93]", strong=True))
    >>> print(markdown(make_table("t", "Scores", "Larger is better.", ["Score", Column("AUROC")], [line])))
    ## Scores
    <BLANKLINE>
    Larger is better.
    <BLANKLINE>
    | Score | AUROC |
    | --- | ---: |
    | a\\|b | **0.91** [0.89, 0.93] |
    """
    lines = [f"## {markdown_text(table.title)}", "", markdown_text(table.caption), ""]
    for group in table.groups:
        if group.heading:
            lines += [f"### {markdown_text(group.heading)}", ""]
        lines.append("| " + " | ".join(markdown_text(f"{c.heading} {c.note}".strip()) for c in table.columns) + " |")
        lines.append("| " + " | ".join("---:" if c.number else "---" for c in table.columns) + " |")
        lines += ["| " + " | ".join(_md_cell(cell) for cell in line) + " |" for line in group.lines]
        lines.append("")
    for mark, sentence in table.notes:
        lines += [f"<sup>{mark}</sup> {markdown_text(sentence)}", ""]
    return "\n".join(lines[:-1])


def _md_cell(cell: Cell) -> str:
    text = f"**{markdown_text(cell.text)}**" if cell.strong else markdown_text(cell.text)
    return f"{text}{f'<sup>{cell.mark}</sup>' if cell.mark else ''} {markdown_text(cell.interval)}".strip()


def markdown_text(text: str) -> str:
    """Plain text as Markdown shows it: nothing in a name is a tag, an entity, a rule, a link, mathematics or emphasis.

    >>> markdown_text("a_b _c_ <b> [x](y) &amp;")
    'a_b \\\\_c\\\\_ &lt;b&gt; [x]\\\\(y) &amp;amp;'
    """
    text = " ".join(text.replace("\xa0", " ").split())
    text = re.sub(r"[\\|*`~$]|(?<![^\W_])_|_(?![^\W_])|(?<=\])\(", r"\\\g<0>", text)
    return re.sub(r"&(?=[#\w]+;)", "&amp;", text).replace("<", "&lt;").replace(">", "&gt;")


def latex(table: Table) -> str:
    """A longtable with booktabs rules; intervals stand under their numbers."""
    align = "".join("r" if column.number else "l" for column in table.columns)
    heads = " & ".join(
        _stacked(latex_text(column.heading), latex_text(column.note), column.number) for column in table.columns
    )
    lines = [
        rf"\begin{{longtable}}{{{align}}}",
        rf"\caption{{{latex_text(f'{table.title}. {table.caption}')}}}\label{{tab:{table.key}}}\\",
        rf"\toprule {heads} \\ \midrule \endfirsthead",
        rf"\toprule {heads} \\ \midrule \endhead",
        r"\bottomrule \endlastfoot",
    ]
    for i, group in enumerate(table.groups):
        if group.heading:
            lines.append(
                (r"\midrule " if i else "") + rf"\multicolumn{{{len(align)}}}{{l}}{{{latex_text(group.heading)}}} \\"
            )
        for line in group.lines:
            cells = (_tex_cell(cell, column.number) for cell, column in zip(line, table.columns, strict=True))
            lines.append(" & ".join(cells) + r" \\")
    lines.append(r"\end{longtable}")
    lines += [
        rf"\noindent{{\footnotesize \textsuperscript{{{mark}}} {latex_text(sentence)}\par}}"
        for mark, sentence in table.notes
    ]
    return "\n".join(lines)


def _tex_cell(cell: Cell, number: bool) -> str:
    text = rf"\textbf{{{latex_text(cell.text)}}}" if cell.strong else latex_text(cell.text)
    if cell.mark:
        text += rf"\textsuperscript{{{latex_text(cell.mark)}}}"
    return _stacked(text, latex_text(cell.interval), number)


def _stacked(first: str, second: str, number: bool) -> str:
    if not second:
        return first
    return rf"\shortstack[{'r' if number else 'l'}]{{{first}\\ {{\tiny {second}}}}}"


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "[": "{[}", "]": "{]}", "*": "{*}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "\xa0": "~", "·": r"$\cdot$", "×": r"$\times$", "−": "$-$", "…": r"\ldots{}", "–": "--",
    "≤": r"$\leq$", "≥": r"$\geq$", "†": r"\dag{}", "✓": r"\checkmark{}", "`": r"\textasciigrave{}",
    "“": "``", "”": "''", "‘": "`", "’": "'", "—": "---",
}  # fmt: skip
_LAST_LATIN = 0x17F  # what inputenc knows without more packages, but for these
_NOT_IN_T1 = frozenset("ĦħĸĿŀŉŦŧſ")


def latex_text(text: str) -> str:
    r"""Any text as plain LaTeX shows it; letters that need more fonts are written as their code point.

    >>> print(latex_text("knn_50 & 95 %"), latex_text("中"))
    knn\_50 \& 95 \% (U+4E2D)
    """
    parts = []
    for before, char in zip(f" {text}", text, strict=False):
        if char in _TEX:
            parts.append(_TEX[char])
        elif char == before and char in "-'":  # two of them would become one other sign
            parts.append("{}" + char)
        elif char.isspace() or not char.isprintable():
            parts.append(" ")
        else:
            printable = ord(char) <= _LAST_LATIN and char not in _NOT_IN_T1
            parts.append(char if printable else f"(U+{ord(char):04X})")
    return "".join(parts)


def markdown_page(title: str, tables: Sequence[Table]) -> str:
    """All tables under one heading."""
    return "\n\n".join([f"# {markdown_text(title)}", *(markdown(table) for table in tables)]) + "\n"


def latex_page(title: str, tables: Sequence[Table]) -> str:
    r"""All tables, ready for ``\input`` in an article."""
    head = [
        f"% {' '.join(latex_text(title).split())}",
        r"% Needs \usepackage[T1]{fontenc}\usepackage{booktabs,longtable,amssymb}; margins of 2 cm suit wide tables.",
        r"\begingroup\footnotesize\setlength{\tabcolsep}{4pt}",
    ]
    return "\n".join([*head, *(latex(table) for table in tables), r"\endgroup"]) + "\n"


def comparison_markdown(comparison: Comparison) -> str:
    """A table, best first. Methods that share a letter cannot be told apart; each letter is a maximal clique.

    Parameters
    ----------
    comparison
        Result of ``stats.compare``.

    Returns
    -------
    str
        The table, and a sentence about the test.

    Examples
    --------
    >>> from caveat.stats import compare
    >>> table = comparison_markdown(compare([[1, 2], [1, 3], [2, 4]] * 4, methods=["knn", "msp"]))
    >>> print("\\n".join(table.splitlines()[:4]))
    | layer | method | average rank | groups |
    | ---: | --- | ---: | --- |
    | 1 | knn | 1.00 | a |
    | 2 | msp | 2.00 | b |
    """
    lines = [f"| {' | '.join(_head(comparison))} | groups |", "| ---: | --- | ---: | --- |"]
    for layer, name, letters in comparison.lines():
        cells = (str(_place(comparison, layer, name)), markdown_text(name), _rank_or_value(comparison, name), letters)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", comparison.explanation()])


def comparison_latex(comparison: Comparison) -> str:
    """The same table for a paper, with rules between layers. Nothing is bold: ties have letters instead.

    Parameters
    ----------
    comparison
        Result of ``stats.compare``.

    Returns
    -------
    str
        A ``tabular`` environment.

    Examples
    --------
    >>> from caveat.stats import compare
    >>> table = comparison_latex(compare([[1, 2], [1, 3], [2, 4]] * 4, methods=["knn", "msp"]))
    >>> [line[:-3] for line in table.splitlines() if "&" in line]
    ['layer & method & average rank & groups', '1 & knn & 1.00 & a', '2 & msp & 2.00 & b']
    """
    head = " & ".join((*_head(comparison), "groups"))
    lines = [r"\begin{tabular}{rlrl}", r"\toprule", rf"{head} \\", r"\midrule"]
    before = 1
    for layer, name, letters in comparison.lines():
        if layer != before:
            lines.append(r"\midrule")
        before = layer
        cells = (str(_place(comparison, layer, name)), latex_text(name), _rank_or_value(comparison, name), letters)
        lines.append(rf"{' & '.join(cells)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", f"% {comparison.explanation()}"])


def _head(comparison: Comparison) -> tuple[str, str, str]:
    place, number = ("layer", "average rank") if comparison.values is None else ("rank", "value")
    return place, comparison.what.removesuffix("s"), number


def _place(comparison: Comparison, layer: int, name: str) -> int:
    """The number of the layer over blocks, or on one set of samples the rank."""
    return layer if comparison.values is None else comparison.rank(name)


def _rank_or_value(comparison: Comparison, name: str) -> str:
    """The average rank over blocks, or on one set of samples the value itself."""
    if comparison.values is None:
        return f"{comparison.average_ranks[name]:.2f}"
    return f"{comparison.values[name]:.4f}"
