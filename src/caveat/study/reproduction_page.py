"""The page of all reproductions in Markdown, from what the studies say of themselves and their comparisons."""

from __future__ import annotations

from collections.abc import Iterable

from caveat.study.agreement import Agreement, Check, Part
from caveat.study.reproductions import Reproduction

__all__ = ["reproduction_page"]

_TOP = """# What the papers report, and what comes out here

Made by `caveat reproduce --docs docs/reproduction.md` from the comparisons that the studies keep; do not edit it by
hand. `caveat reproduce --list` shows the same on a terminal, `caveat reproduce NAME` runs one again: its plan into
`runs/NAME` (it can be stopped and resumed), then its tables and figures, then ours beside the published numbers.

Where the paper's data are at hand, numbers are compared. Where they are not, the pipeline runs on other public data and
what the paper *says* of its tables is compared: "agree" then means that the same finding comes out. Every difference
has its reason beside it.
"""


def reproduction_page(all_of_them: Iterable[Reproduction]) -> str:
    """The whole page. The same studies give the same text."""
    studies = [(one, one.committed) for one in all_of_them]
    lines = [_TOP, "| name | reproduces | compared | agree | time |", "|---|---|---:|---:|---|"]
    for one, agreement in studies:
        counts = f"{agreement.compared} | {agreement.agree}" if agreement else "not yet run | "
        lines.append(f"| [`{one.name}`](#{one.name}) | {one.reproduces} | {counts} | {one.time} |")
    for one, agreement in studies:
        lines += ["", f"## {one.name}", "", *_study(one, agreement)]
    return "\n".join(lines) + "\n"


def _study(one: Reproduction, agreement: Agreement | None) -> list[str]:
    data = ", ".join(f"`{file.name}`" for file in one.data) or "none beyond the study's folder"
    lines = [
        f"**{one.title}.** {one.paper}. {one.reproduces}.",
        "",
        f"    caveat reproduce {one.name}",
        "",
        f"Time: {one.time}. Data: {data}. More: [studies/{one.folder.name}](../studies/{one.folder.name}/README.md).",
        "",
    ]
    if agreement is not None:
        lines += ["| part | compared | agree | counts as agreement | largest difference |", "|---|---:|---:|---|---:|"]
        lines += [_line(part) for part in agreement.parts]
        shown = [check for part in agreement.parts for check in part.checks if check.agrees]
        if shown:
            lines += ["", "What agrees:", "", "| what | published | ours |", "|---|---|---|"]
            lines += [f"| {_cell(c.what)} | {_cell(c.published)} | {_cell(c.ours)} |" for c in shown]
        lines += _differences(agreement)
    if one.differs:
        lines += ["", "What is not as in the paper:", "", *(f"- {sentence}" for sentence in one.differs)]
    return lines


def _line(part: Part) -> str:
    largest = "" if part.largest is None else f"{part.largest:.3g}"
    return f"| {_cell(part.title)} | {part.compared} | {part.agree} | {_cell(part.rule)} | {largest} |"


def _differences(agreement: Agreement) -> list[str]:
    """Every difference, those of one reason together."""
    by_reason: dict[str, list[Check]] = {}
    for part in agreement.parts:
        for check in part.differences:
            by_reason.setdefault(check.why or "not explained", []).append(check)
    if not by_reason:
        return []
    lines = ["", "What differs, by reason:"]
    for why, checks in by_reason.items():
        lines += ["", f"*{_sentence(why)}*", "", "| what | published | ours |", "|---|---|---|"]
        lines += [f"| {_cell(c.what)} | {_cell(c.published)} | {_cell(c.ours)} |" for c in checks]
    return lines


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
