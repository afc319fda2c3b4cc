r"""Selective prediction: what an automatic system gets wrong if it answers only below a threshold.

Samples are accepted from the least to the most strange. Selective risk is the error rate among the accepted;
generalized risk is P(error and accepted). One point per distinct score: tied samples are accepted together.

AURC: Geifman, Uziel and El-Yaniv, ICLR 2019. AUGRC: Traub, Bungert, Lueth, Baumgartner, Maier-Hein, Maier-Hein and
Jaeger, "Overcoming Common Flaws in the Evaluation of Selective Classification Systems", NeurIPS 2024. Published tables
print both times 1000.

In the balanced forms every class counts the same, however many samples it has: risk is the error rate of each class,
averaged over the classes. Coverage stays the plain share of accepted samples. Definitions as in FD-Shifts (Jaeger,
Lueth, Klein and Bungert, ICLR 2023, and Traub et al., NeurIPS 2024): a class without an accepted sample contributes no
selective risk.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal import ranking
from caveat._internal.checks import as_labels, as_mask, as_number, as_share, as_vector, same_length
from caveat._internal.html import small_table

__all__ = [
    "RiskCurve",
    "augrc",
    "aurc",
    "balanced_augrc",
    "balanced_aurc",
    "coverage_at_risk",
    "e_augrc",
    "e_aurc",
    "risk_at_coverage",
    "risk_curve",
    "scored_answers",
]


@final
@dataclass(frozen=True, eq=False)
class RiskCurve:
    """Risk against coverage, one point per distinct score, from coverage 0 to 1.

    ``threshold[i]`` is the largest accepted score at point i; the first point accepts nothing and has ``-inf``.

    Parameters
    ----------
    coverage
        Share of accepted samples at each point, increasing.
    selective
        Error rate among the accepted samples.
    generalized
        Share of samples that are accepted and wrong.
    threshold
        Largest accepted score.

    Examples
    --------
    >>> curve = risk_curve(score=[0.1, 0.2, 0.3, 0.4], correct=[True, True, False, True])
    >>> curve.threshold.tolist(), curve.selective.round(2).tolist()
    ([-inf, 0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 0.33, 0.25])
    """

    coverage: NDArray[np.float64]
    selective: NDArray[np.float64]
    generalized: NDArray[np.float64]
    threshold: NDArray[np.float64]

    def _repr_html_(self) -> str:
        rows = []
        for share in (0.5, 0.8, 0.9, 0.95, 1.0):
            at = min(int(np.searchsorted(self.coverage, share * (1 - 1e-12))), self.coverage.size - 1)
            rows.append((f"{100 * self.coverage[at]:.1f} %", f"{100 * self.selective[at]:.2f} %",
                         f"{self.threshold[at]:.6g}"))  # fmt: skip
        return small_table("Risk against coverage", rows, head=("accepted", "errors among them", "largest score"))


class Steps(NamedTuple):
    """How many rows are accepted, how many of them are wrong, and the score, at the end of each group of ties."""

    accepted: NDArray[np.float64]
    wrong: NDArray[np.intp]
    score: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[np.float64], right: NDArray[np.bool_]) -> Steps:
        # Two sorts and a merge: numpy sorts values several times faster than it finds the order that sorts them.
        return cls.merge(np.sort(values[right]), np.sort(values[~right]))

    @classmethod
    def merge(cls, of_right: NDArray[np.float64], of_wrong: NDArray[np.float64]) -> Steps:
        """The same from the sorted scores of the right and of the wrong answers."""
        is_wrong = np.zeros(of_right.size + of_wrong.size, dtype=np.bool_)
        is_wrong[np.searchsorted(of_right, of_wrong) + np.arange(of_wrong.size)] = True
        merged = np.empty(is_wrong.size)
        merged[is_wrong], merged[~is_wrong] = of_wrong, of_right
        return cls.ascending(merged, is_wrong)

    @classmethod
    def ascending(cls, scores: NDArray[np.float64], is_wrong: NDArray[np.bool_]) -> Steps:
        """The same from all scores in order, and which of them belong to wrong answers."""
        wrong, accepted = np.cumsum(is_wrong, dtype=np.intp), np.arange(1, scores.size + 1, dtype=np.float64)
        last = np.append(scores[1:] != scores[:-1], True)
        return cls(accepted, wrong, scores) if last.all() else cls(accepted[last], wrong[last], scores[last])

    def aurc(self) -> float:
        """Area under selective risk: the first risk is held from coverage 0."""
        risk, widths = self.wrong / self.accepted, np.diff(self.accepted)
        inner = (np.dot(risk[1:], widths) + np.dot(risk[:-1], widths)) / 2
        return float((risk[0] * self.accepted[0] + inner) / self.accepted[-1])

    def augrc(self) -> float:
        """Area under generalized risk; the sum is of whole numbers, exact up to 60 million rows."""
        wrong, widths = self.wrong.astype(np.float64), np.diff(self.accepted)
        twice = wrong[0] * self.accepted[0] + np.dot(widths, wrong[1:]) + np.dot(widths, wrong[:-1])
        return float(twice / (2 * self.accepted[-1] ** 2))


def risk_curve(*, score: ArrayLike, correct: ArrayLike) -> RiskCurve:
    """Selective and generalized risk at every coverage that a threshold can give.

    Parameters
    ----------
    score
        Shape (n,): samples with a small score are accepted first.
    correct
        Shape (n,): whether the answer was right.

    Returns
    -------
    RiskCurve
        Arrays ``coverage``, ``selective``, ``generalized`` and ``threshold``, one entry per distinct score and one for
        accepting nothing.

    Examples
    --------
    >>> curve = risk_curve(score=[0.1, 0.2, 0.3, 0.4], correct=[True, True, False, True])
    >>> curve.coverage.tolist(), curve.generalized.tolist()
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 0.0, 0.25, 0.25])
    """
    return curve_of(Steps.of(*scored_answers(score, correct)))


def curve_of(steps: Steps) -> RiskCurve:
    """The curve of rows that were sorted already."""
    accepted, wrong, threshold = steps
    selective, n = wrong / accepted, accepted[-1]
    return RiskCurve(
        coverage=np.concatenate([[0.0], accepted / n]),
        selective=np.concatenate([selective[:1], selective]),  # no sample accepted: the first risk is held
        generalized=np.concatenate([[0.0], wrong / n]),
        threshold=np.concatenate([[-np.inf], threshold]),
    )


def aurc(*, score: ArrayLike, correct: ArrayLike) -> float:
    """Area under selective risk against coverage (trapezoid). Lower is better.

    Parameters
    ----------
    score
        Shape (n,): samples with a small score are accepted first.
    correct
        Shape (n,): whether the answer was right.

    Returns
    -------
    float
        Between 0 and 1. Published tables print it times 1000.

    Examples
    --------
    >>> round(aurc(score=[0.1, 0.1, 0.2, 0.3, 0.3, 0.4, 0.5, 0.9], correct=[1, 1, 1, 0, 1, 1, 0, 0]), 7)
    0.1174851
    """
    return Steps.of(*scored_answers(score, correct)).aurc()


def augrc(*, score: ArrayLike, correct: ArrayLike) -> float:
    r"""Area under generalized risk against coverage (trapezoid). Lower is better.

    The chance that a random sample is wrong and at least as readily accepted as another random one. Exactly
    $(1 - AUROC_f)\,a(1 - a) + (1 - a)^2 / 2$ with accuracy a and $AUROC_f$ that of errors against correct answers,
    ties included; that is how it is computed.

    Parameters
    ----------
    score
        Shape (n,): samples with a small score are accepted first.
    correct
        Shape (n,): whether the answer was right.

    Returns
    -------
    float
        Between 0 and 0.5. Published tables print it times 1000.

    Examples
    --------
    >>> augrc(score=[0.1, 0.1, 0.2, 0.3, 0.3, 0.4, 0.5, 0.9], correct=[1, 1, 1, 0, 1, 1, 0, 0])
    0.09375
    """
    return ranking.augrc(*scored_answers(score, correct))


def e_aurc(*, score: ArrayLike, correct: ArrayLike) -> float:
    """AURC above that of a perfect ranking with the same number of errors (e-AURC). Lower is better; 0 is perfect.

    The reference is exact for this n: every right answer before every wrong one, no ties. Other software subtracts the
    limit for large n and can go below zero. Wrong answers that are tied at the end are ranked perfectly too; the
    trapezoid then cuts under the reference, and the excess is 0.

    Parameters
    ----------
    score
        Shape (n,): samples with a small score are accepted first.
    correct
        Shape (n,): whether the answer was right.

    Returns
    -------
    float
        AURC less that of the perfect ranking, at least 0.

    Examples
    --------
    >>> e_aurc(score=[1, 2, 3, 4], correct=[1, 1, 0, 0])
    0.0
    >>> round(e_aurc(score=[1, 1, 1, 1], correct=[1, 1, 0, 0]), 4)
    0.3542
    """
    values, right = scored_answers(score, correct)
    n, errors = values.size, int(values.size - right.sum())
    risk = np.arange(errors + 1) / np.arange(n - errors, n + 1) if errors < n else np.ones(errors + 1)
    best = float(np.trapezoid(risk)) / n
    return max(0.0, aurc(score=values, correct=right) - best)


def e_augrc(*, score: ArrayLike, correct: ArrayLike) -> float:
    r"""AUGRC above that of a perfect ranking, $(1 - a)^2 / 2$ (e-AUGRC). Lower is better; 0 is perfect, never less.

    Parameters
    ----------
    score
        Shape (n,): samples with a small score are accepted first.
    correct
        Shape (n,): whether the answer was right.

    Returns
    -------
    float
        AUGRC less that of the perfect ranking, at least 0.

    Examples
    --------
    >>> e_augrc(score=[0.1, 0.1, 0.2, 0.3, 0.3, 0.4, 0.5, 0.9], correct=[1, 1, 1, 0, 1, 1, 0, 0])
    0.0234375
    """
    values, right = scored_answers(score, correct)
    above, tied = ranking.wins(values[right], values[~right])
    pairs = int(right.sum()) * int((~right).sum())
    return (pairs - above - tied / 2) / values.size**2


def risk_at_coverage(*, score: ArrayLike, correct: ArrayLike, coverage: float) -> float:
    """Selective risk at the smallest coverage a threshold can give that is at least ``coverage``. Lower is better.

    Parameters
    ----------
    score
        Shape (n,): samples with a small score are accepted first.
    correct
        Shape (n,): whether the answer was right.
    coverage
        Share of samples that must be accepted at least.

    Returns
    -------
    float
        Error rate among the accepted samples.

    Examples
    --------
    >>> risk_at_coverage(score=[1, 2, 3, 3], correct=[1, 0, 1, 1], coverage=0.6)
    0.25
    """
    coverage = as_share(coverage, "coverage")
    curve = risk_curve(score=score, correct=correct)
    # Coverages are k / n in floating point; 0.3 must find 3 of 10.
    reached = bisect.bisect_left(curve.coverage, coverage * (1 - 1e-12))
    return float(curve.selective[reached])


def coverage_at_risk(*, score: ArrayLike, correct: ArrayLike, risk: float) -> float:
    """Largest coverage whose selective risk is at most ``risk``; 0 if every threshold is riskier. Higher is better.

    Parameters
    ----------
    score
        Shape (n,): samples with a small score are accepted first.
    correct
        Shape (n,): whether the answer was right.
    risk
        Largest allowed error rate among the accepted samples.

    Returns
    -------
    float
        Share of samples that are accepted.

    Examples
    --------
    >>> coverage_at_risk(score=[1, 2, 3, 4], correct=[1, 1, 0, 0], risk=0.4)
    0.75
    >>> coverage_at_risk(score=[1, 2], correct=[0, 1], risk=0.1)
    0.0
    """
    risk = as_number(risk, "risk", least=0, most=1)
    curve = risk_curve(score=score, correct=correct)
    safe = np.flatnonzero(curve.selective[1:] <= risk * (1 + 1e-12))
    return float(curve.coverage[1:][safe[-1]]) if safe.size else 0.0


def balanced_aurc(*, score: ArrayLike, correct: ArrayLike, labels: ArrayLike) -> float:
    r"""Area under the class-averaged selective risk against coverage (trapezoid). Lower is better.

    $$ r(\tau) = \frac1K \sum_c \frac{\#\{y = c,\ \text{wrong},\ s \le \tau\}}{\#\{y = c,\ s \le \tau\}} $$

    Parameters
    ----------
    score, correct, labels
        Shape (n,): the score, whether the answer was right, and the true class.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> round(balanced_aurc(score=[1, 2, 3, 4], correct=[1, 0, 1, 0], labels=[0, 0, 0, 1]), 4)
    0.1875
    """
    values, wrong, group = _by_class(score, correct, labels)
    order = np.argsort(values, kind="stable")
    # Only the class of the sample just accepted changes its rate: add up the changes, in the order of acceptance.
    by_class = order[np.argsort(group[order], kind="stable")]
    first = np.concatenate([[True], group[by_class][1:] != group[by_class][:-1]])
    start = np.flatnonzero(first)[np.cumsum(first) - 1]
    accepted = np.arange(values.size) - start + 1
    errors = np.cumsum(wrong[by_class])
    errors = errors - (errors[start] - wrong[by_class][start])
    rate = errors / accepted
    change = np.empty(values.size)
    change[by_class] = rate - np.where(first, 0.0, np.roll(rate, 1))
    ends = _group_ends(values[order])
    risk = np.cumsum(change[order])[ends] / (group.max() + 1)
    return float(np.trapezoid(np.append(risk[0], risk), np.append(0.0, (ends + 1) / values.size)))


def balanced_augrc(*, score: ArrayLike, correct: ArrayLike, labels: ArrayLike) -> float:
    r"""Area under the class-balanced generalized risk against coverage (trapezoid). Lower is better.

    An error of class c weighs $n / (K n_c)$, so that full coverage has the balanced error rate.

    Parameters
    ----------
    score, correct, labels
        Shape (n,): the score, whether the answer was right, and the true class.

    Returns
    -------
    float
        At least 0; half the balanced error rate where all samples are tied.

    Examples
    --------
    >>> round(balanced_augrc(score=[1, 2, 3, 4], correct=[1, 0, 1, 0], labels=[0, 0, 0, 1]), 4)
    0.1667
    """
    values, wrong, group = _by_class(score, correct, labels)
    sizes = np.bincount(group)
    weight = wrong / (sizes.size * sizes[group])
    order = np.argsort(values)
    ends = _group_ends(values[order])
    risk = np.cumsum(weight[order])[ends]
    return float(np.trapezoid(np.append(0.0, risk), np.append(0.0, (ends + 1) / values.size)))


def scored_answers(score: ArrayLike, correct: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Checked scores and right-or-wrong of the same samples."""
    values, right = as_vector(score, "score", allow_infinite=True), as_mask(correct, "correct")
    same_length(score=values, correct=right)
    return values, right


def _by_class(
    score: ArrayLike, correct: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.intp]]:
    values, right = scored_answers(score, correct)
    true = as_labels(labels, "labels")
    same_length(score=values, labels=true)
    _, group = np.unique(true, return_inverse=True)
    return values, ~right, group


def _group_ends(values_sorted: NDArray[np.float64]) -> NDArray[np.intp]:
    return np.append(np.flatnonzero(values_sorted[1:] != values_sorted[:-1]), values_sorted.size - 1)
