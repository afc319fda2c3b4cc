r"""The one statistic that the outlier gate calibrates: a score, or several scores combined on rows of their own.

Several scores are never tested one by one. Part 1 of the calibration rows turns each score into a p-value $p_k(x)$, and

$$ T(x) = -\tfrac1K \sum_k \log p_k(x) \quad (\text{fisher}), \qquad T(x) = -\log \min_k p_k(x) \quad (\text{min}) $$

is one score like any other, calibrated on part 2. The promise is exact, however the scores depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.rounding import Rounding
from caveat.conformal import p_values
from caveat.outputs import Outputs
from caveat.scores import Score

__all__ = ["Combination", "Statistic"]

Combination = Literal["fisher", "min"]


@final
@dataclass(frozen=True, eq=False)
class Statistic:
    """Fitted scores, and for several of them the part of the calibration scores that turns them into p-values.

    Parameters
    ----------
    scores
        Fitted OOD scores.
    references
        For each of several scores its values on part 1 of the calibration rows, ascending; empty for one score.
    combine
        How p-values become one number.
    """

    scores: tuple[Score, ...]
    references: tuple[NDArray[np.float64], ...] = ()
    combine: Combination = "fisher"

    def score(self, outputs: Outputs) -> NDArray[np.float64]:
        """One number per row, shape (n,), rounded until equal rows tie. The larger, the stranger."""
        if not self.references:
            return self.scores[0].rounded(outputs)
        return combined([score.rounded(outputs) for score in self.scores], self.references, self.combine)


def combined(
    values: Sequence[NDArray[np.float64]], references: Sequence[NDArray[np.float64]], how: Combination
) -> NDArray[np.float64]:
    """Scores of several kinds as one: from their p-values against the reference scores.

    >>> combined([np.array([5.0]), np.array([0.0])], [np.arange(3.0), np.arange(3.0)], "min").round(3)
    array([1.386])
    """
    logs = np.log(
        [p_values(calibration=reference, test=score) for reference, score in zip(references, values, strict=True)]
    )
    return Rounding()(-logs.mean(axis=0) if how == "fisher" else -logs.min(axis=0))
