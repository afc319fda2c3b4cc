"""Plots with matplotlib (extra ``plots``): each function draws on ``ax``, or on a new figure, and returns the axes.

Nothing global is changed: no style, no rcParams. Curves differ in line style, not in color alone.
"""

from caveat.plots._axes import save
from caveat.plots.clique_map import clique_map
from caveat.plots.critical_difference import critical_difference
from caveat.plots.forest import forest
from caveat.plots.fpr_band import fpr_band
from caveat.plots.histogram import histogram
from caveat.plots.reliability import reliability
from caveat.plots.risk_coverage import risk_coverage
from caveat.plots.roc import roc
from caveat.plots.set_sizes import set_sizes

__all__ = [
    "clique_map",
    "critical_difference",
    "forest",
    "fpr_band",
    "histogram",
    "reliability",
    "risk_coverage",
    "roc",
    "save",
    "set_sizes",
]
