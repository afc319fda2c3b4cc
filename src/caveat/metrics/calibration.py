r"""Is a model right, and are its probabilities calibrated? Accuracy, expected calibration error, Brier score, NLL.

ECE, Brier and NLL: lower is better. Brier and NLL are proper scores and mix calibration with sharpness; ECE looks at
calibration alone, depends on its bins and is biased upwards when bins hold few samples.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from caveat._internal.blocks import row_blocks
from caveat._internal.by_row import top_and_rest
from caveat._internal.checks import (
    Rng,
    as_count,
    as_labels,
    as_level,
    as_mask,
    as_matrix,
    as_rng,
    as_shares,
    as_vector,
    check_known,
    same_length,
)
from caveat.conformal.quantile import quantile_rank
from caveat.errors import CaveatWarning, InputError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.results import Estimate, proportion_interval

__all__ = ["Calibration", "Reliability", "accuracy", "brier", "calibration", "ece", "nll", "reliability"]

Bins = Literal["width", "mass"]

_BELOW_CHANCE = 0.002  # two-sided level of the test: a model that guesses is warned about in one of 1,000 sets


@final
@dataclass(frozen=True, eq=False)
class Reliability:
    """Mean confidence and accuracy of the predicted class, by bin of confidence; empty bins are left out.

    Parameters
    ----------
    confidence
        Mean confidence of the samples in each bin, shape (b,).
    accuracy
        Share of right predictions in each bin, shape (b,).
    count
        Number of samples in each bin, shape (b,).

    Examples
    --------
    >>> points = reliability(probs=[[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], labels=[0, 1, 1], bins=10)
    >>> points.count, points.accuracy
    (array([1, 1, 1]), array([1., 0., 1.]))
    """

    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    count: NDArray[np.intp]


@final
@dataclass(frozen=True)
class Calibration:
    """The three numbers of one model on one data set.

    Parameters
    ----------
    ece
        Expected calibration error; its caveat says how large it is on average for a calibrated model of this size.
    brier
        Brier score; None for a confidence alone.
    nll
        Negative log-likelihood in nats; None for a confidence alone.

    Examples
    --------
    >>> outputs = Outputs(probs=[[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]], labels=[0, 1, 1, 1])
    >>> round(calibration(outputs, rng=0, bins=2).nll.value, 3)
    0.646
    """

    ece: Estimate
    brier: Estimate | None
    nll: Estimate | None


def accuracy(outputs: Outputs, *, delta: float = 0.05, name: str = "outputs") -> Estimate:
    """Share of right predictions with its exact binomial interval. Higher is better.

    Warns where it is below 1/C beyond chance: labels that start at 1, or that follow another order of classes, look
    like that.

    Parameters
    ----------
    outputs
        Outputs with labels, and with logits or probabilities.
    delta
        Allowed failure of the interval.
    name
        Name of the set in the warning.

    Returns
    -------
    Estimate
        The accuracy; ``lower`` and ``upper`` are the Clopper-Pearson interval.

    Examples
    --------
    >>> print(accuracy(Outputs(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]], labels=[0, 1, 1])))
    0.667 [0.094, 0.992] (95 % Clopper-Pearson, n = 3)
    """
    demand(outputs, "predictions", "labels", who="accuracy")
    right, chance = int(outputs.correct.sum()), 1 / int(outputs.n_classes or 1)
    if proportion_interval(right, outputs.n, delta=_BELOW_CHANCE).upper < chance:
        warnings.warn(f"the accuracy on {name} is {right / outputs.n:.1%}, below the {chance:.1%} of guessing. Do "
                      "labels start at 1, or in another order of classes?", CaveatWarning, stacklevel=2)  # fmt: skip
    return proportion_interval(right, outputs.n, delta=delta)


def reliability(
    *,
    probs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    bins: int = 15,
    by: Bins = "width",
) -> Reliability:
    """The points of a reliability diagram, from probabilities and labels, or from a confidence and what was correct.

    Parameters
    ----------
    probs
        Probabilities, shape (n, C).
    labels
        True classes, shape (n,).
    confidence, correct
        Probability of the predicted class, and whether it is the true one, shape (n,) each: of a model that gives no
        more.
    bins, by
        How many bins, of equal width or of equal mass (as equal as ties of confidence allow).

    Returns
    -------
    Reliability
        Arrays ``confidence``, ``accuracy`` and ``count``, one entry per bin that is not empty.

    Examples
    --------
    >>> points = reliability(probs=[[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], labels=[0, 1, 1], bins=2)
    >>> points.confidence.round(3), points.accuracy.round(3), points.count
    (array([0.767]), array([0.667]), array([3]))
    """
    sure, right = _confidence(probs, labels, confidence, correct)
    where = _bin(sure, bins, by)
    count = np.bincount(where, minlength=bins)
    full = count > 0
    mean = np.bincount(where, weights=sure, minlength=bins)[full] / count[full]
    rate = np.bincount(where, weights=right, minlength=bins)[full] / count[full]
    return Reliability(mean, rate, count[full])


def ece(
    *,
    probs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    bins: int = 15,
    by: Bins = "width",
) -> float:
    r"""Expected calibration error: the gap between confidence and accuracy, averaged over bins by their size.

    $$ \sum_b \frac{n_b}{n} |\mathrm{acc}(b) - \mathrm{conf}(b)| $$

    Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", ICML 2017, eq. (5); 15 bins as there.
    Takes what ``reliability`` takes.

    Parameters
    ----------
    probs
        Probabilities, shape (n, C).
    labels
        True classes, shape (n,).
    confidence, correct
        Instead of those two, shape (n,): confidence in the predicted class, and whether it is right.
    bins, by
        How many bins, of equal ``"width"`` or of equal ``"mass"`` (as equal as ties of confidence allow).

    Returns
    -------
    float
        Between 0 and 1; smaller is better.

    Examples
    --------
    >>> round(ece(probs=[[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], labels=[0, 1, 1], bins=2), 4)
    0.1
    >>> round(ece(confidence=[0.9, 0.8, 0.6], correct=[True, False, True], bins=2), 4)
    0.1
    """
    points = reliability(probs=probs, labels=labels, confidence=confidence, correct=correct, bins=bins, by=by)
    return float(points.count @ np.abs(points.accuracy - points.confidence) / points.count.sum())


def brier(*, probs: ArrayLike, labels: ArrayLike) -> float:
    r"""Mean squared distance of the probabilities from the truth, summed over the classes: between 0 and 2.

    $$ \frac1n \sum_i \sum_c (p_{ic} - [y_i = c])^2 $$

    Brier, Monthly Weather Review 78(1), 1950. For two classes some software prints half of it.

    Parameters
    ----------
    probs
        Probabilities, shape (n, C).
    labels
        True classes, shape (n,).

    Returns
    -------
    float
        Smaller is better.

    Examples
    --------
    >>> round(brier(probs=[[0.9, 0.1], [0.8, 0.2]], labels=[0, 1]), 4)
    0.65
    """
    return float(_squared(*_checked(probs, labels)).mean())


def nll(*, labels: ArrayLike, probs: ArrayLike | None = None, logits: ArrayLike | None = None) -> float:
    r"""Negative log-likelihood of the true labels, in nats. Infinite where a true label was given probability 0.

    $$ -\frac1n \sum_i \log p_{i y_i} $$

    Give ``logits`` where there are any: they do not underflow.

    Parameters
    ----------
    labels
        True classes, shape (n,).
    probs
        Probabilities, shape (n, C).
    logits
        Logits, shape (n, C), instead of the probabilities.

    Returns
    -------
    float
        Smaller is better.

    Examples
    --------
    >>> round(nll(probs=[[0.9, 0.1], [0.8, 0.2]], labels=[0, 1]), 4)
    0.8574
    >>> nll(logits=[[0.0, 1000.0]], labels=[0])
    1000.0
    """
    if (probs is None) == (logits is None):
        raise InputError("give exactly one of probs and logits.")
    values, true = _checked(probs, labels) if logits is None else _checked(logits, labels, name="logits")
    return float(_surprise(values, true, logits=logits is not None).mean())


def calibration(
    outputs: Outputs,
    *,
    rng: Rng,
    delta: float = 0.05,
    bins: int = 15,
    resamples: int = 1000,
    probs: NDArray[np.float64] | None = None,
) -> Calibration:
    r"""ECE, Brier score and NLL of a model's outputs, each with its interval.

    Brier and NLL are means over samples and get the normal interval of a mean. ECE is biased upwards: a calibrated
    model has an ECE well above 0 on few samples, and the caveat says how much on average. Its interval allows for that,
    with $g_b$ the sum of accuracy less confidence over bin b, divided by n, and $\gamma_b$ its expectation:

    $$ \sum_b |g_b| - q \le \sum_b |\gamma_b| \le \sum_b |g_b| + t $$

    q is exceeded by $\sum_b |g_b - \gamma_b|$ with probability delta / 2: the larger of its quantiles if the model were
    calibrated, by simulation, and by bootstrap. The lower end is therefore above 0 for a calibrated model with
    probability delta / 2 only: it tests the hypothesis of calibration. t is Wilson's bound of a mean whose terms have
    the second moment of accuracy less confidence; the bias of ECE only adds to the safety of that end. For a badly
    calibrated model the interval is wider than it need be.

    Parameters
    ----------
    outputs
        Outputs with labels, and with logits or probabilities.
    rng
        Seed, or a generator, of the simulation and the bootstrap behind the interval of ECE.
    delta
        Allowed failure of each interval.
    bins
        Number of bins of equal width of ECE.
    resamples
        Number of simulated and of resampled data sets.
    probs
        ``outputs.probs``, where the caller has computed them already.

    Returns
    -------
    Calibration
        ``ece``, ``brier`` and ``nll``, each an Estimate.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> outputs = Outputs(probs=[[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]], labels=[0, 1, 1, 1])
    >>> print(calibration(outputs, rng=rng, bins=2).brier)
    0.450 [0.000, 1.005] (95 % normal, n = 4)
    """
    delta = as_level(delta, "delta")
    as_count(resamples, "resamples")
    demand(outputs, "labels", who="calibration")
    if not outputs.has("probs") and outputs.has("predictions") and outputs.has("confidence"):
        sure, right = _confidence(None, None, outputs.confidence, outputs.correct)
        return Calibration(
            _ece_interval(sure, right, rng=as_rng(rng), delta=delta, bins=bins, resamples=resamples), None, None
        )
    demand(outputs, "probs", who="calibration")
    p, true = _checked(outputs.probs if probs is None else probs, outputs.labels)
    logits = outputs.logits
    surprise = _surprise(p if logits is None else logits, true, logits=logits is not None)
    return Calibration(
        ece=_ece_interval(*_top(p, true), rng=as_rng(rng), delta=delta, bins=bins, resamples=resamples),
        brier=_mean_interval(_squared(p, true), delta),
        nll=_mean_interval(surprise, delta),
    )


def _ece_interval(
    confidence: NDArray[np.float64],
    right: NDArray[np.float64],
    *,
    rng: np.random.Generator,
    delta: float,
    bins: int,
    resamples: int,
) -> Estimate:
    where = _bin(confidence, bins, "width")
    gap = right - confidence
    n = gap.size
    sums = np.bincount(where, weights=gap, minlength=bins)
    value = float(np.abs(sums).sum() / n)
    if_calibrated = _calibrated_values(confidence, where, bins=bins, rng=rng, resamples=resamples)
    away = _resampled_distances(confidence, right, where, bins=bins, rng=rng, resamples=resamples)
    rank = quantile_rank(resamples, delta / 2)  # more than there are: nothing can be excluded, the lower end is 0
    reach = max(np.sort(drawn)[rank - 1] if rank <= resamples else np.inf for drawn in (if_calibrated, away))
    z2 = float(ndtri(delta / 2)) ** 2 / n
    upper = value + z2 / 2 + np.sqrt(z2**2 / 4 + z2 * np.mean(gap**2))
    caveat = (f"ECE over {bins} bins of equal width is biased upwards when bins hold few samples: a calibrated model "
              f"with these confidences has {if_calibrated.mean():.3f} on average.")  # fmt: skip
    return Estimate(value, max(0.0, float(value - reach)), min(1.0, float(upper)), level=1 - delta, n=n,
                    method="bootstrap and test of calibration", caveat=caveat)  # fmt: skip


def _calibrated_values(
    confidence: NDArray[np.float64], where: NDArray[np.intp], *, bins: int, rng: np.random.Generator, resamples: int
) -> NDArray[np.float64]:
    """ECE of calibrated models with these confidences, drawn ``resamples`` times.

    The confidences of a bin are taken for equal to their mean: the right answers then vary a little more.
    """
    count = np.bincount(where, minlength=bins)
    mean = np.bincount(where, weights=confidence, minlength=bins) / np.maximum(count, 1)
    right = rng.binomial(count, np.minimum(mean, 1.0), size=(resamples, bins))
    return np.asarray(np.abs(right - count * mean).sum(axis=1) / confidence.size)


def _resampled_distances(
    confidence: NDArray[np.float64],
    right: NDArray[np.float64],
    where: NDArray[np.intp],
    *,
    bins: int,
    rng: np.random.Generator,
    resamples: int,
) -> NDArray[np.float64]:
    """Distance of the gaps of bootstrap resamples from those of the sample, summed over the bins, shape (resamples,).

    A resample counts the right and the wrong answers of each bin: a multinomial draw. The confidences of such a cell
    differ by 1 / bins at most; their sum is drawn from the normal distribution with its mean and variance.
    """
    n, cell = confidence.size, where + np.where(right > 0, bins, 0)
    size = np.bincount(cell, minlength=2 * bins)
    held = np.maximum(size, 1)
    mean = np.bincount(cell, weights=confidence, minlength=2 * bins) / held
    spread = np.sqrt(np.bincount(cell, weights=(confidence - mean[cell]) ** 2, minlength=2 * bins) / held)
    distances = np.empty(resamples)
    for rows in row_blocks(resamples, row_bytes=2 * bins * 8):
        count = rng.multinomial(n, size / n, size=rows.stop - rows.start)
        confidences = (count - size) * mean + np.sqrt(count) * spread * rng.standard_normal(count.shape)
        gaps = (count - size)[:, bins:] - confidences[:, :bins] - confidences[:, bins:]
        distances[rows] = np.abs(gaps).sum(axis=1) / n
    return distances


def _mean_interval(values: NDArray[np.float64], delta: float) -> Estimate:
    value, n = float(values.mean()), values.size
    spread = values.std(ddof=1) if n > 1 and np.isfinite(value) else np.inf
    half = float(-ndtri(delta / 2) * spread / np.sqrt(n))
    caveat = "One sample does not show its spread." if n == 1 else ""
    if spread == 0:
        caveat = "All samples have the same value: the interval does not allow for others."
    return Estimate(value, max(0.0, value - half), value + half, level=1 - delta, n=n, method="normal", caveat=caveat)


def _checked(values: Any, labels: ArrayLike, *, name: str = "probs") -> tuple[NDArray[Any], NDArray[np.intp]]:
    matrix = as_matrix(values, name)
    if name == "probs":
        Outputs(probs=matrix)  # rows of probabilities, or one sentence that says what came
    true = as_labels(labels, "labels", n_classes=matrix.shape[1])
    same_length(**{name: matrix, "labels": true})
    return matrix.astype(np.float64, copy=False), true


def _confidence(
    probs: ArrayLike | None, labels: ArrayLike | None, confidence: ArrayLike | None, correct: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Confidence in the predicted class, and 1 where it is the true one, from either pair of arrays."""
    if probs is not None and labels is not None and confidence is None and correct is None:
        return _top(*_checked(probs, labels))
    if confidence is None or correct is None or probs is not None or labels is not None:
        raise InputError("give probs and labels, or confidence and correct.")
    sure = as_shares(as_vector(confidence, "confidence"), "confidence")
    right = as_mask(correct, "correct")
    same_length(confidence=sure, correct=right)
    return sure, right.astype(np.float64)


def _top(p: NDArray[Any], true: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    predicted = p.argmax(axis=1)
    return np.take_along_axis(p, predicted[:, None], axis=1)[:, 0], (predicted == true).astype(np.float64)


def _squared(p: NDArray[Any], true: NDArray[np.intp]) -> NDArray[np.float64]:
    at_truth = p[np.arange(true.size), true]
    return np.asarray(np.einsum("ij,ij->i", p, p) - 2 * at_truth + 1)


def _surprise(values: NDArray[Any], true: NDArray[np.intp], *, logits: bool) -> NDArray[np.float64]:
    values = values.astype(np.float64, copy=False)
    at_truth = values[np.arange(true.size), true]
    if logits:
        largest, rest = top_and_rest(values)
        return np.asarray(largest - at_truth + np.log1p(rest))
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(at_truth))


def _bin(confidence: NDArray[np.float64], bins: int, by: Bins) -> NDArray[np.intp]:
    as_count(bins, "bins", most=10**6)
    check_known(by, ("width", "mass"), "kind of bins")
    if by == "width":  # right-closed bins, as in the paper: (0, 1/M], ..., ((M-1)/M, 1]
        return np.clip(np.ceil(confidence * bins).astype(np.intp) - 1, 0, bins - 1)
    edges = np.quantile(confidence, np.arange(1, bins) / bins)
    return np.searchsorted(edges, confidence, side="left")
