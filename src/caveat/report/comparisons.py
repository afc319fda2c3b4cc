"""A comparison of methods or models as a table in Markdown and LaTeX."""

from __future__ import annotations

from caveat.report.tables import latex_text, markdown_text
from caveat.results import Comparison

__all__ = ["comparison_latex", "comparison_markdown"]


def comparison_markdown(found: Comparison) -> str:
    """A table, best first. Methods that share a letter cannot be told apart; each letter is a maximal clique."""
    head = ("layer", *_head(found), "groups")
    lines = [f"| {' | '.join(head)} |", "| ---: | --- | ---: | --- |"]
    for layer, name, letters in found.lines():
        lines.append(f"| {layer} | {markdown_text(name)} | {_number(found, name)} | {letters} |")
    return "\n".join([*lines, "", f"{found.summary()} {found.legend()}"])


def comparison_latex(found: Comparison) -> str:
    """The same table for a paper, with rules between layers. Nothing is bold: ties have letters instead."""
    head = " & ".join(("layer", *_head(found), "groups"))
    lines = [r"\begin{tabular}{rlrl}", r"\toprule", rf"{head} \\", r"\midrule"]
    before = 1
    for layer, name, letters in found.lines():
        if layer != before:
            lines.append(r"\midrule")
        before = layer
        lines.append(rf"{layer} & {latex_text(name)} & {_number(found, name)} & {letters} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", f"% {found.summary()} {found.legend()}"])


def _head(found: Comparison) -> tuple[str, str]:
    return found.what.removesuffix("s"), "average rank" if found.values is None else "value"


def _number(found: Comparison, name: str) -> str:
    """The average rank over blocks, or on one set of samples the value itself."""
    return f"{found.average_ranks[name]:.2f}" if found.values is None else f"{found.values[name]:.4f}"
