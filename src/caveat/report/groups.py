"""A study over a matrix: which scores are best for each in-distribution set and backbone, regime by regime.

Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection ...", figure 1: one map per
backbone, with a column for the errors and for the near, mid and far outliers of each in-distribution set. A block is a
network (paradigm, dropout, passes), a seed and an outlier set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from caveat.report.chart import Panel
from caveat.report.ranks import clique_panel
from caveat.report.tables import Cell, Column, Table, make_table
from caveat.report.verdicts import ERRORS, GROUP_METRICS, METRICS, Verdict
from caveat.report.view import View
from caveat.report.words import count, listing

__all__ = ["GROUP_LEAD", "backbones", "group_panels", "group_table"]

GROUP_LEAD = (
    "Connected dots: the best score and those tied with it (Friedman, then Conover-Holm). A block is a network of the "
    "group, a seed and an outlier set; blocks of one network share its inliers, so p-values are approximate."
)
Verdicts = Mapping[tuple[str, str, str], Verdict]


def backbones(view: View) -> list[str]:
    """Backbones of the groups, in order."""
    return list(dict.fromkeys(group.rpartition("/")[2] for group in view.groups))


def group_panels(view: View, verdicts: Verdicts, order: Sequence[str]) -> list[Panel]:
    """A clique map for each metric and backbone: the metrics in their order, the backbones within."""
    panels: list[Panel] = []
    for metric in GROUP_METRICS:
        for backbone in backbones(view):
            columns = _columns(view, verdicts, metric, backbone)
            if columns:
                panels.append(clique_panel(columns, key=f"groups-{metric}-{len(panels)}", order=order, of=backbone))
    return panels


def group_table(view: View, verdicts: Verdicts) -> Table | None:
    """Every group and regime with its best scores."""
    lines = []
    for metric in GROUP_METRICS:
        for backbone in backbones(view):
            for v in _columns(view, verdicts, metric, backbone):
                p = v.comparison.p_value
                best = listing(list(v.top), most=30) if v.tells else "all are tied"
                lines.append((v.model, v.regime, METRICS[metric].name, best, count(len(v.places), "block"),
                              Cell(f"{p:.2g}", p)))  # fmt: skip
    columns = ("In-distribution set / backbone", "Regime", "Metric", "Best and tied with it", "Rests on",
               Column("Friedman p"))  # fmt: skip
    return make_table("groups", "Best scores by group and regime", GROUP_LEAD, columns, lines)


def _columns(view: View, verdicts: Verdicts, metric: str, backbone: str) -> list[Verdict]:
    mine = [group for group in view.groups if group.rpartition("/")[2] == backbone]
    keys = [(metric, group, regime) for group in mine for regime in (ERRORS, *view.regime_names)]
    return [verdicts[key] for key in keys if key in verdicts and len(verdicts[key].order) > 1]
