r"""Weights for test data whose classes are more or less frequent than in calibration: label shift.

With the joint shares of prediction and label in the source, $C_{ij} = P(\hat y = i, y = j)$, and the shares of the
predictions in the target, $\mu_i = Q(\hat y = i)$:

$$ w_y = \frac{q(y)}{p(y)}, \qquad C w = \mu, \qquad \hat w = \max(0, \hat C^{-1} \hat\mu) $$

Black-box shift estimation: Lipton, Wang and Smola, "Detecting and Correcting for Label Shift with Black Box
Predictors" (BBSE), ICML 2018, arXiv:1802.03916. It needs p(x|y) to be the same in both, and labels of the source only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_count, as_labels, as_level, as_rng, check_same
from caveat.conformal.weighted import effective_n, shift_promise
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.results import Promise

__all__ = ["LabelShift", "label_shift_weights"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

_SINGULAR = 1e10  # a larger condition number leaves no digit that a sample could have


@final
@dataclass(frozen=True, eq=False)
class LabelShift:
    """How much more frequent each class is in the target than in the source.

    Parameters
    ----------
    weights
        q(y) / p(y) of each class, shape (C,).
    lower, upper
        Bootstrap interval of each weight, shape (C,), over source and target rows; each class by itself.
    level
        Of these intervals.
    source_shares, target_shares
        p(y) as counted, and q(y) = w p(y), scaled to sum 1.
    n_source, n_target
        How many rows they come from.

    Examples
    --------
    >>> shift = LabelShift(np.array([0.5, 2.0]), np.zeros(2), np.full(2, 3.0), 0.95, np.array([0.7, 0.3]),
    ...                    np.array([0.35, 0.65]), 100, 50)
    >>> shift.of_labels([1, 0]), shift.of_rows(1)
    (array([2. , 0.5]), array([[0.5, 2. ]]))
    """

    weights: Vector
    lower: Vector
    upper: Vector
    level: float
    source_shares: Vector
    target_shares: Vector
    n_source: int
    n_target: int

    def of_labels(self, labels: ArrayLike) -> Vector:
        """Weight of each calibration row, by its label.

        Parameters
        ----------
        labels
            True labels of the calibration rows, shape (n,).

        Returns
        -------
        array of shape (n,)
            The weights.
        """
        return np.asarray(self.weights[as_labels(labels, "labels", n_classes=self.weights.size)])

    def of_rows(self, n: int) -> Matrix:
        """Weights of n test rows, shape (n, C): one for each label that a row may have.

        Parameters
        ----------
        n
            Number of test rows.

        Returns
        -------
        array of shape (n, C)
            The weights, the same in each row.
        """
        return np.tile(self.weights, (as_count(n, "n"), 1))

    @property
    def effective_n(self) -> float:
        """How many equally weighted rows say as much as the source rows with these weights."""
        return effective_n(self._of_source)

    def promise(self, alpha: float) -> Promise:
        """What sets calibrated on the source rows with these weights promise at ``alpha``.

        Parameters
        ----------
        alpha
            Allowed error of the sets.

        Returns
        -------
        Promise
            Its ``holds`` says whether coverage is promised.
        """
        return shift_promise(self._of_source, alpha)

    @property
    def _of_source(self) -> Vector:
        """Weights of the source rows, class by class."""
        return np.repeat(self.weights, np.rint(self.source_shares * self.n_source).astype(np.intp))

    def __str__(self) -> str:
        far = int(np.argmax(np.abs(self.weights - 1)))
        return (
            f"label shift of {self.weights.size} classes from {self.n_source} source and {self.n_target} target rows: "
            f"class {far} has weight {self.weights[far]:.2f} [{self.lower[far]:.2f}, {self.upper[far]:.2f}]; effective "
            f"n = {self.effective_n:.1f}"
        )


def label_shift_weights(
    *, source: Outputs, target: Outputs, delta: float = 0.05, resamples: int = 1000, rng: Rng = 0
) -> LabelShift:
    """Estimate the weight of each class from a model's predictions on labeled source and unlabeled target rows.

    Parameters
    ----------
    source
        Outputs with labels, drawn as the calibration data and not used in training. Best a split of its own: weights
        from the calibration rows themselves are not independent of their scores.
    target
        Outputs drawn as the test data; labels are not read.
    delta
        The intervals have level 1 - delta.
    resamples
        How many bootstrap samples of source and target rows.
    rng
        Draws them.

    Returns
    -------
    LabelShift
        ``weights``, ``lower`` and ``upper``, shape (C,); ``of_labels`` and ``of_rows`` turn them into weights of rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def drawn(n, shares):
    ...     labels = rng.choice(3, size=n, p=shares)
    ...     return Outputs(logits=2 * np.eye(3)[labels] + rng.normal(size=(n, 3)), labels=labels)
    >>> shift = label_shift_weights(source=drawn(4000, [0.4, 0.4, 0.2]), target=drawn(4000, [0.2, 0.2, 0.6]))
    >>> shift.weights.round(1), bool(((shift.lower < [0.5, 0.5, 3]) & (shift.upper > [0.5, 0.5, 3])).all())
    (array([0.5, 0.5, 3. ]), True)
    """
    rng, delta = as_rng(rng), as_level(delta, "delta")
    as_count(resamples, "resamples")
    demand(source, "probs", "labels", who="label_shift_weights(source=)")
    demand(target, "probs", who="label_shift_weights(target=)")
    classes = int(check_same("number of classes", source=source.n_classes, target=target.n_classes) or 0)
    labels = as_labels(source.labels, "labels", n_classes=classes)
    joint = np.bincount(source.predictions * classes + labels, minlength=classes**2).reshape(classes, classes)
    predicted = np.bincount(target.predictions, minlength=classes)
    _check_solvable(joint)
    weights = np.maximum(np.linalg.solve(joint / source.n, predicted / target.n), 0)
    if not weights.any():
        raise InputError("every weight is 0: the predictions on target cannot come from the classes of source.")
    shares = joint.sum(axis=0) / source.n
    least, most = np.empty((resamples, classes)), np.empty((resamples, classes))
    for i in range(resamples):
        drawn = rng.multinomial(source.n, joint.ravel() / source.n).reshape(classes, classes) / source.n
        try:
            least[i] = most[i] = np.linalg.solve(drawn, rng.multinomial(target.n, predicted / target.n) / target.n)
        except np.linalg.LinAlgError:  # a class that this sample never drew: its weight could be anything
            least[i], most[i] = 0.0, np.inf
    return LabelShift(
        weights=weights,
        lower=np.minimum(np.maximum(np.quantile(least, delta / 2, axis=0, method="lower"), 0), weights),
        upper=np.maximum(np.maximum(np.quantile(most, 1 - delta / 2, axis=0, method="higher"), 0), weights),
        level=1 - delta,
        source_shares=shares,
        target_shares=weights * shares / (weights @ shares),
        n_source=source.n,
        n_target=target.n,
    )


def _check_solvable(joint: NDArray[np.intp]) -> None:
    """Raise InputError where some class has no row, is never predicted, or is predicted exactly as another."""
    for axis, what in ((0, "has no row in source"), (1, "is never predicted in source")):
        if (missing := np.flatnonzero(joint.sum(axis=axis) == 0)).size:
            raise InputError(
                f"class {missing[0]} {what} ({missing.size} such classes): the confusion matrix is singular, and the "
                "weights are not known. Give more source rows, or merge classes."
            )
    if not np.linalg.cond(joint / joint.sum()) < _SINGULAR:
        raise InputError(
            "the confusion matrix of source is singular: the model cannot tell some classes apart, and their weights "
            "are not known. Merge these classes, or take a better model."
        )
