r"""Split conformal prediction sets: which labels are still possible.

$$ C(x) = \{ y : a(x, y) \le \hat q \}, \qquad \hat q = \text{the conformal quantile of } a(x_i, y_i) $$

With ``lac``, a(x, y) = 1 - p_y(x): Sadinle, Lei and Wasserman, "Least Ambiguous Set-Valued Classifiers With Bounded
Error Levels", JASA 114, 2019.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from caveat._checks import as_level, check_known
from caveat.conformal.nonconformity import NONCONFORMITY
from caveat.conformal.p_values import p_values
from caveat.conformal.quantile import quantile_rank, too_few
from caveat.errors import CaveatWarning, InputError, NotFittedError
from caveat.outputs import Outputs
from caveat.results import PredictionSets

__all__ = ["SplitSets"]


@final
@dataclass(eq=False)
class SplitSets:
    """Prediction sets that hold the true label with probability at least 1 - alpha.

    The promise is marginal (over calibration set and test point together) and needs them to be exchangeable; data that
    trained the model, or chose a setting of it, is not calibration data.

    Parameters
    ----------
    score
        Nonconformity of a label: ``"lac"``, one minus its probability.
    alpha
        Allowed error.

    Examples
    --------
    >>> calibration = Outputs(probs=[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]], labels=[0, 0, 1, 0])
    >>> sets = SplitSets(alpha=0.4).calibrate(calibration).predict(Outputs(probs=[[0.95, 0.05], [0.5, 0.5]]))
    >>> sets.labels(0), sets.labels(1)
    (array([0]), array([], dtype=int64))
    """

    score: str = "lac"
    alpha: float = 0.1

    def __post_init__(self) -> None:
        check_known(self.score, NONCONFORMITY, "nonconformity score")
        as_level(self.alpha, "alpha")

    def calibrate(self, outputs: Outputs) -> Self:
        """Set the threshold from held-out outputs with labels."""
        if not outputs.has("correct"):
            raise InputError("SplitSets calibrates on labels and on logits or probs; one of them is None.")
        true = [
            self._nonconformity(block)[np.arange(block.n), block.labels]
            for block in outputs.blocks(("probs", "labels"))
        ]
        self.calibration_ = np.sort(np.concatenate(true))
        self.n_classes_ = outputs.n_classes
        k, n = quantile_rank(outputs.n, self.alpha), outputs.n
        self.level_ = min(1.0, k / (n + 1))
        self.caveat_ = too_few(n, self.alpha)
        if self.caveat_:
            warnings.warn(self.caveat_, CaveatWarning, stacklevel=2)
        self.threshold_ = math.inf if k > n else float(self.calibration_[k - 1])
        return self

    def predict(self, outputs: Outputs) -> PredictionSets:
        """The labels whose nonconformity is at or below the threshold."""
        self._can_predict(outputs)
        member = [self._nonconformity(block) <= self.threshold_ for block in outputs.blocks(("probs",))]
        return PredictionSets(np.concatenate(member), alpha=self.alpha, level=self.level_, caveat=self.caveat_)

    def p_values(self, outputs: Outputs, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """P-value of every label of every sample, shape (n, C); label y is in the set if its p-value exceeds alpha."""
        self._can_predict(outputs)
        found = [
            p_values(calibration=self.calibration_, test=self._nonconformity(block), rng=rng)
            for block in outputs.blocks(("probs",))
        ]
        return np.concatenate(found)

    def _nonconformity(self, block: Outputs) -> NDArray[np.float64]:
        return NONCONFORMITY[self.score](block)

    def _can_predict(self, outputs: Outputs) -> None:
        if not hasattr(self, "threshold_"):
            raise NotFittedError("SplitSets has no threshold yet. Call calibrate(outputs) before predict(...).")
        if not outputs.has("probs"):
            raise InputError("SplitSets needs outputs.logits or outputs.probs; both are None.")
        if outputs.n_classes != self.n_classes_:
            raise InputError(f"outputs must have {self.n_classes_} classes as in calibration, got {outputs.n_classes}.")
