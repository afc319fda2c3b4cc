"""An evaluation on the terminal, on disk and as JSON."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from caveat._internal.files import replacing_file
from caveat._internal.result_tables import write_tables
from caveat.cli._console import say
from caveat.cli._json import json_text
from caveat.evaluation import Evaluation
from caveat.evaluation.records import COLUMNS
from caveat.report import write_report
from caveat.report.words import listing, number, share

_SHOWN = 5  # of the ranking on the terminal; table and report hold all of it


def write(evaluation: Evaluation, folder: Path) -> tuple[Path, Path]:
    """Write results.csv, results.parquet with pyarrow, and the report; returns the paths of CSV file and page."""
    table = write_tables(evaluation.rows(), folder, columns=COLUMNS)
    return table, write_report(evaluation, folder).html


def show(evaluation: Evaluation) -> None:
    """Print accuracy, the decision, and the best scores."""
    if evaluation.accuracy is not None:
        say(f"Accuracy {share(evaluation.accuracy)} on {evaluation.accuracy.n:,} test samples.")
    if evaluation.decision is None:
        say("No threshold could be set: there are no calibration samples.")
    else:
        say(str(evaluation.decision))
    if evaluation.ranking is not None:
        best = [f"{row['score']} {number(row['mean_auroc'])} {row['tied']}" for row in _ranking(evaluation)]
        say(f"Mean AUROC: {listing(best, most=_SHOWN)}. Scores that share a letter are tied "
            f"({evaluation.ranking.test_name()}).")  # fmt: skip
    if notes := evaluation.findings().notes:
        say(" ".join(notes))


def as_json(evaluation: Evaluation) -> str:
    """Decision, accuracy and ranking for machines; a number that is not finite becomes null."""
    content = {
        "title": evaluation.title,
        "accuracy": None if evaluation.accuracy is None else vars(evaluation.accuracy),
        "decision": None if evaluation.decision is None else evaluation.decision.to_dict(),
        "ranking": _ranking(evaluation),
        "settings": evaluation.settings_chosen,
        "notes": list(evaluation.notes),
        "versions": dict(evaluation.versions),
    }
    return json_text(content)


def write_json(evaluation: Evaluation, target: str) -> None:
    """Write the JSON to a file, or to standard output for ``-``."""
    if target == "-":
        sys.stdout.write(as_json(evaluation))
        return
    with replacing_file(target) as temporary:
        temporary.write_text(as_json(evaluation), encoding="utf-8", newline="\n")


def _ranking(evaluation: Evaluation) -> list[dict[str, Any]]:
    ranking = evaluation.ranking
    if ranking is None:
        return []
    letters = {name: tied for _, name, tied in ranking.lines()}
    areas: dict[str, list[float]] = {name: [] for name in ranking.methods}
    for name in ranking.methods:
        for outlier in evaluation.outliers:
            area = evaluation.detection(name, outlier).auroc
            areas[name] += [] if area is None else [area.value]
    return [{"score": name, "rank": ranking.rank(name), "tied": letters[name],
             "mean_auroc": sum(areas[name]) / len(areas[name]) if areas[name] else math.nan}
            for name in ranking.methods]  # fmt: skip
