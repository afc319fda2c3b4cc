"""An evaluation on the terminal and on disk."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.table import Table

from caveat.cli._console import console, say
from caveat.report import write_html
from caveat.report.words import interval, number, percent
from caveat.study import Evaluation
from caveat.study.tables import write_table

__all__ = ["show", "write"]

_MOST_LINES = 15  # of the ranking on the terminal; table and report hold all of it


def write(evaluation: Evaluation, folder: Path) -> tuple[Path, Path]:
    """Write the table and the report into ``folder``; returns their paths."""
    table = write_table(evaluation.rows(), folder)
    report = folder / "report.html"
    write_html(evaluation, report)
    return table, report


def show(evaluation: Evaluation) -> None:
    """Print the ranking: AUROC on average and against each outlier set; ties are marked by their kind."""
    out = console()
    names = evaluation.outliers
    wide = 74 + 8 * len(names) <= out.width  # otherwise the average and the worst must do
    table = Table(
        title=evaluation.title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("score", no_wrap=True)
    for heading in ("AUROC", "interval", "guaranteed", *(f"({i + 1})" for i in range(len(names)) if wide)):
        table.add_column(heading, justify="right", no_wrap=True)
    if not wide:
        table.add_column("worst", justify="right", no_wrap=True)
    for line in evaluation.ranking[:_MOST_LINES]:
        found = [evaluation.detection(line.score, name).auroc.value for name in names]
        tied = "" if line is evaluation.best or not line.tied_with_best else "~" if line.told_apart else "="
        cells = [number(line.mean_auroc.value), interval(line.mean_auroc), interval(line.auroc_band)]
        cells += [number(value) for value in (found if wide else [min(found)])]
        table.add_row(f"{tied}{line.rank}", line.score, *cells)
    if (right := evaluation.inlier.accuracy) is not None:
        say(f"Accuracy on the {right.n} inliers: {percent(right.value)} {interval(right, 'percent')}.")
    out.print(table)

    if (hidden := len(evaluation.ranking) - _MOST_LINES) > 0:
        say(f"{hidden} more score{'s' if hidden > 1 else ''} in the table and the report.")
    say(
        f"AUROC{', mean over the outlier sets' if len(names) > 1 else ''}; higher is better. Interval: "
        f"{100 * (1 - evaluation.delta):g} % (DeLong). Guaranteed: holds for any n with probability at least "
        f"{evaluation.ranking[0].auroc_band.level:.3g} over the draw of the inliers, for these outliers. "
        "'=' and '~' mark scores tied with the best: '=' where a paired test finds no difference, '~' where it does "
        "but the guaranteed bands overlap. Ranks follow that test."
    )
    if wide:
        say("Outliers: " + ", ".join(f"({i}) {name}" for i, name in enumerate(names, 1)) + ".")
    if (sets := evaluation.sets) is not None:
        covered = sets.coverage
        say(
            f"Prediction sets ({sets.method}, alpha = {sets.alpha:g}, {sets.n_calibration} calibration samples): "
            f"coverage {number(covered.value)} {interval(covered)}, promised {number(sets.promised)}: "
            f"{sets.verdict.verdict}{'' if sets.verdict.verdict == 'as chance allows' else ' the promise'}; "
            f"mean size {sets.mean_size:.2f}."
        )
