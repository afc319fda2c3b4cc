r"""Minus a confidence: the maximum softmax probability, at a set or fitted temperature, or the model's own confidence.

$$ s(x) = -\max_k \operatorname{softmax}(z(x) / T)_k, \qquad
   T^* = \arg\min_T\; -\frac1n \sum_i \log \operatorname{softmax}(z_i / T)_{y_i}, \qquad s(x) = -c(x) $$

Hendrycks and Gimpel, "A Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural Networks",
ICLR 2017, arXiv:1610.02136. Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
section 4.2, arXiv:1706.04599. ``outputs.confidence`` is the output of ConfidNet (Corbiere et al., NeurIPS 2019,
arXiv:1910.04851), the confidence branch of DeVries and Taylor (2018, arXiv:1802.04865), or minus the abstention mass of
Deep Gamblers (Liu et al., NeurIPS 2019, arXiv:1907.00208).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_positive, check_result
from caveat._internal.params import positive
from caveat._internal.rounding import NEAR_MINUS_ONE, Rounding
from caveat.errors import CaveatWarning
from caveat.outputs import Head, Outputs
from caveat.outputs.outputs import demand
from caveat.scores._base import Score
from caveat.scores._probabilities import largest_probability, log_probabilities, logits_of
from caveat.scores._statistics import Gathered

__all__ = ["MSP", "Confidence", "TempScale", "fit_temperature", "with_temperature"]

_COLD, _HOT = 0.01, 100.0  # where the search starts
_COLDEST, _HOTTEST = 1e-8, 1e8  # and where it ends: logits need not have the scale of a network's
_TOLERANCE = 1e-12  # of 1/T, relative
_SHARED = (
    "features",
    "labels",
    "predictions",
    "confidence",
    "embeddings",
    "ease_probs",
)  # what a temperature does not touch


@final
@dataclass(eq=False)
class MSP(Score):
    """Minus the largest softmax probability. The larger, the stranger.

    Where the largest logit leads by more than about 37, p is 1 to the last digit and all such rows tie at -1; the
    scores ``entropy``, ``gen`` and ``collision`` still tell them apart, and so do the class scores here.

    Parameters
    ----------
    temperature
        Divides the logits first; 1 leaves them alone. With given ``probs`` it acts on their logarithm.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> MSP().score(Outputs(logits=[sure, unsure])).round(3)
    array([-1. , -0.5])
    """

    temperature: float = positive(1.0)

    name: ClassVar[str] = "msp"
    needs: ClassVar[tuple[str, ...]] = ("probs",)

    @property
    def rounding(self) -> Rounding:
        return NEAR_MINUS_ONE

    def _score(self, block: Outputs) -> NDArray[Any]:
        return -largest_probability(block, self.temperature)

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        """Minus the log-probability of each class, so that softmax(-s) gives the probabilities back."""
        return -log_probabilities(block, self.temperature)


@final
@dataclass(eq=False)
class TempScale(Score):
    """Minus the largest probability at the fitted temperature. The larger, the stranger.

    Fit it on ID validation outputs: on the data a network was trained on, the temperature comes out too low. To feed
    another logit score with the same temperature, use ``with_temperature(outputs, fit_temperature(validation))``.

    Examples
    --------
    >>> overconfident = Outputs(logits=[[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]], labels=[0, 0, 1, 1])
    >>> score = TempScale().fit(overconfident)
    >>> round(score.temperature_, 3), score.score(overconfident[:1]).round(3)  # three of four are right
    (3.641, array([-0.75]))
    """

    name: ClassVar[str] = "tempscale"
    needs: ClassVar[tuple[str, ...]] = ("probs",)
    fits_on: ClassVar[tuple[str, ...]] = ("probs", "labels")
    held_out: ClassVar[bool] = True
    walks_alone: ClassVar[str] = "searches a temperature in about eight walks"

    @property
    def rounding(self) -> Rounding:
        return NEAR_MINUS_ONE

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self.temperature_ = fit_temperature(train)

    def _score(self, block: Outputs) -> NDArray[Any]:
        return -largest_probability(block, self.temperature_)

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        """Minus the log-probability of each class at the fitted temperature."""
        return -log_probabilities(block, self.temperature_)


@final
@dataclass(eq=False)
class Confidence(Score):
    """Minus the confidence column of the outputs. The larger, the stranger.

    Examples
    --------
    >>> Confidence().score(Outputs(confidence=[0.9, 0.2]))
    array([-0.9, -0.2])
    """

    name: ClassVar[str] = "confidence"
    needs: ClassVar[tuple[str, ...]] = ("confidence",)

    def _score(self, block: Outputs) -> NDArray[Any]:
        return np.asarray(-block.confidence)


def fit_temperature(outputs: Outputs) -> float:
    """The temperature with the smallest negative log-likelihood on held-out ID data.

    The likelihood is convex in 1/T; Newton's method inside a bracket finds its minimum, in about eight walks. Logits
    that say nothing about the labels have none and give 100. Where every prediction is right it improves without end
    towards T = 0, where all samples would tie: 1 is returned with a warning.

    Parameters
    ----------
    outputs
        Logits (or probabilities) and labels of data the network was not trained on.

    Returns
    -------
    float
        The temperature, above 0.

    Examples
    --------
    >>> round(fit_temperature(Outputs(logits=[[4.0, 0.0], [4.0, 0.0], [4.0, 0.0]], labels=[0, 0, 1])), 3)
    5.771
    """
    demand(outputs, "probs", "labels", who="fit_temperature")
    low, high = 1 / _HOT, 1 / _COLD
    while _slopes(outputs, low)[0] >= 0:
        if low <= 1 / _HOTTEST:
            return _HOT
        low, high = low / 100, low
    while _slopes(outputs, high)[0] <= 0:
        if high >= 1 / _COLDEST:
            warnings.warn(f"the likelihood still improves at T = {_COLDEST:g}, as if no prediction could be wrong, so "
                          "T = 1 is used. Fit the temperature on held-out data with some errors.",
                          CaveatWarning, stacklevel=2)  # fmt: skip
            return 1.0
        low, high = high, high * 100
    beta, last = 1.0 if low < 1 < high else float(np.sqrt(low * high)), np.inf
    while high - low > _TOLERANCE * low:
        slope, curvature = _slopes(outputs, beta)
        low, high = (low, beta) if slope > 0 else (beta, high)
        step = slope / curvature if curvature > 0 else np.inf
        if abs(step) <= _TOLERANCE * beta:
            break
        # Outside the bracket, or not converging: halve the bracket instead.
        following = beta - step if low < beta - step < high and 2 * abs(step) < last else float(np.sqrt(low * high))
        last, beta = abs(following - beta), following
    return 1 / beta


def with_temperature(outputs: Outputs, temperature: float) -> Outputs:
    """The same outputs with every logit divided by the temperature, so that any logit score sees scaled logits.

    The head is scaled with the logits, so scores that compute logits from features agree with those that read them;
    its angles and decision boundaries stay as they are. Probabilities are raised to 1/T and normalized. Logits that
    were stored are copied, float16 to float32, where different logits stay different; features and other arrays are
    shared.

    Parameters
    ----------
    outputs
        Anything that holds logits, probabilities, Monte-Carlo logits or a head.
    temperature
        T, as ``fit_temperature`` gives it.

    Returns
    -------
    Outputs
        New outputs; arrays that do not change are shared.

    Examples
    --------
    >>> with_temperature(Outputs(logits=[[4.0, 0.0]]), 2.0).logits
    array([[2., 0.]])
    """
    temperature, stored = as_positive(temperature, "temperature"), demand(outputs, who="with_temperature").stored()
    fields: dict[str, Any] = {key: getattr(outputs, key) for key in stored if key in _SHARED}
    for key in ("logits", "mc_logits"):
        if key in stored:
            fields[key] = _divided(getattr(outputs, key), temperature)
    if "probs" in stored:
        parts = [np.exp(log_probabilities(block, temperature)) for block in outputs.blocks(("probs",))]
        fields["probs"] = np.concatenate(parts).astype(np.promote_types(outputs.probs.dtype, np.float32))
    if outputs.head is not None:
        fields["head"] = Head(_divided(outputs.head.weight, temperature), _divided(outputs.head.bias, temperature))
    return Outputs(**fields, layers=outputs.layers, class_names=outputs.class_names, check=False)


def _divided(array: NDArray[Any], temperature: float) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        scaled = array.astype(np.promote_types(array.dtype, np.float32), copy=False) / temperature
    return check_result(scaled, "a logit over the temperature")


def _slopes(outputs: Outputs, beta: float) -> tuple[float, float]:
    """First and second derivative in beta = 1/T of the mean negative log-likelihood.

    They are the mean of the logit, less that of the label, and its variance, under the softmax at that temperature.
    """
    slope = curvature = 0.0
    for block in outputs.blocks(("probs", "labels")):
        logits = logits_of(block)
        logits -= logits.max(axis=1, keepdims=True)
        weights = np.exp(beta * logits)
        total = weights.sum(axis=1)
        weights *= logits
        mean = weights.sum(axis=1) / total
        square = np.einsum("ij,ij->i", weights, logits) / total
        slope += float((mean - np.take_along_axis(logits, block.labels[:, None], axis=1)[:, 0]).sum())
        curvature += float((square - mean**2).sum())
    return slope / outputs.n, curvature / outputs.n
