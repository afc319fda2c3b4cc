"""A comparison of methods as a table in Markdown and LaTeX."""

from __future__ import annotations

from caveat.report.tables import latex_text, markdown_text
from caveat.results import Comparison

__all__ = ["comparison_latex", "comparison_markdown"]


def comparison_markdown(found: Comparison) -> str:
    """A table, best first. Methods that share a letter cannot be told apart; each letter is a maximal clique."""
    lines = ["| layer | method | average rank | groups |", "| ---: | --- | ---: | --- |"]
    for layer, name, letters in found.lines():
        lines.append(f"| {layer} | {markdown_text(name)} | {found.average_ranks[name]:.2f} | {letters} |")
    return "\n".join([*lines, "", f"{found.summary()} {found.legend()}"])


def comparison_latex(found: Comparison) -> str:
    """The same table for a paper, with rules between layers. Nothing is bold: ties have letters instead."""
    lines = [r"\begin{tabular}{rlrl}", r"\toprule", r"layer & method & average rank & groups \\", r"\midrule"]
    before = 1
    for layer, name, letters in found.lines():
        if layer != before:
            lines.append(r"\midrule")
        before = layer
        lines.append(rf"{layer} & {latex_text(name)} & {found.average_ranks[name]:.2f} & {letters} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", f"% {found.summary()} {found.legend()}"])
