"""Risk-coverage curve of selective prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from caveat.metrics import augrc, aurc, risk_curve
from caveat.plots._axes import draw_curve, plain, prepare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["risk_coverage"]

FEW = 0.02  # below this coverage the selective risk rests on few samples and does not set the height of the axes


def risk_coverage(
    *,
    score: ArrayLike,
    correct: ArrayLike,
    label: str | None = None,
    generalized: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Risk among the accepted samples over the share of samples accepted, from the least strange on. Lower is better.

    Call it once per score with the same ``ax`` to compare scores. The legend has the area under the curve: AURC, or
    AUGRC if ``generalized``. The selective risk of the first 2 % of the samples may leave the axes.

    Parameters
    ----------
    score
        Shape (n,). The larger, the stranger.
    correct
        Shape (n,): whether the prediction was right.
    label
        Name of the score in the legend.
    generalized
        Draw P(wrong and accepted) instead of P(wrong | accepted).
    ax
        Axes to draw on; None: a new figure.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Examples
    --------
    >>> ax = risk_coverage(score=[1, 2, 3, 4], correct=[True, True, False, True], label="msp")
    >>> ax.get_legend().get_texts()[0].get_text()
    'msp: AURC 0.115'
    """
    curve = risk_curve(score=score, correct=correct)
    ax = prepare(ax, "risk_coverage")
    area = augrc(score=score, correct=correct) if generalized else aurc(score=score, correct=correct)
    text = f"{'AUGRC' if generalized else 'AURC'} {area:.3g}"
    risk = curve.generalized if generalized else curve.selective
    draw_curve(ax, curve.coverage, risk, text if label is None else f"{plain(label)}: {text}")
    points = [np.asarray(line.get_xydata()) for line in ax.lines]
    top = max(float(xy[xy[:, 0] >= FEW, 1].max(initial=0.0)) for xy in points)
    ax.set(xlim=(0, 1), ylim=(0, 1.08 * top or 1.0), xlabel="Coverage: share of samples accepted")
    ax.set_ylabel("Generalized risk: wrong and accepted" if generalized else "Selective risk: error among accepted")
    ax.legend(loc="upper left", fontsize="small")
    return ax
