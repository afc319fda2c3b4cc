"""What is certified, what an attack reached, and what was there before, side by side: GAUC <= AAUC <= AUC.

The order is not hoped for but checked, sample by sample: an attacked value above its certificate means that one of the
two is wrong, and nothing made from them is reported. All three areas are of the same outliers, because areas of
different samples can change places by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from caveat import metrics
from caveat._internal.checks import as_number, as_vector, check_each, same_length
from caveat.robust.detection import adversarial_auroc, guaranteed_auroc, guaranteed_fpr_at_tpr

__all__ = ["Sandwich", "sandwich"]


@final
@dataclass(frozen=True)
class Sandwich:
    """AUROC clean, attacked and guaranteed on the same samples, each with its conservative form. Higher is better.

    ``gap`` is what neither attack nor certificate settles: the worst case lies between ``guaranteed`` and
    ``adversarial``.
    """

    clean: float
    adversarial: float
    guaranteed: float
    conservative_clean: float
    conservative_adversarial: float
    conservative_guaranteed: float
    guaranteed_fpr95: float
    n_inlier: int
    n_outlier: int
    zero_gradient_share: float | None = None

    @property
    def gap(self) -> float:
        return self.adversarial - self.guaranteed

    def __str__(self) -> str:
        areas = f"{100 * self.guaranteed:.1f} <= {100 * self.adversarial:.1f} <= {100 * self.clean:.1f}"
        text = f"GAUC <= AAUC <= AUC: {areas} ({self.n_inlier} inliers, {self.n_outlier} outliers)"
        if self.zero_gradient_share is not None:
            text += f", zero gradients {100 * self.zero_gradient_share:.0f} %"
        return text


def sandwich(
    *,
    inlier: ArrayLike,
    outlier: ArrayLike,
    outlier_attacked: ArrayLike,
    outlier_upper: ArrayLike,
    zero_gradient_share: float | None = None,
    tolerance: float = 1e-9,
) -> Sandwich:
    """The three areas, after a check that they can be true.

    Parameters
    ----------
    inlier
        Confidence of the inliers (n,); larger is less strange.
    outlier, outlier_attacked, outlier_upper
        Confidence of the same outliers (m,): unchanged, attacked, certified.
    zero_gradient_share
        Of the attack, to be shown beside its number.
    tolerance
        How far a value may lie on the wrong side of another and still be rounding.

    Examples
    --------
    >>> print(sandwich(inlier=[0.9, 0.8], outlier=[0.1, 0.2], outlier_attacked=[0.1, 0.85], outlier_upper=[0.4, 0.95]))
    GAUC <= AAUC <= AUC: 50.0 <= 75.0 <= 100.0 (2 inliers, 2 outliers)
    >>> sandwich(inlier=[0.9], outlier=[0.1], outlier_attacked=[0.7], outlier_upper=[0.6])
    Traceback (most recent call last):
    caveat.errors.InputError: outlier_attacked must not exceed outlier_upper, got 0.7 at row 0. ...
    """
    known = as_vector(inlier, "inlier", allow_infinite=True)
    clean = as_vector(outlier, "outlier", allow_infinite=True)
    attacked = as_vector(outlier_attacked, "outlier_attacked", allow_infinite=True)
    upper = as_vector(outlier_upper, "outlier_upper", allow_infinite=True)
    same_length(outlier=clean, outlier_attacked=attacked, outlier_upper=upper)  # areas of the same samples
    tolerance = as_number(tolerance, "tolerance", least=0)
    if zero_gradient_share is not None:
        zero_gradient_share = as_number(zero_gradient_share, "zero_gradient_share", least=0, most=1)
    check_each(clean, clean <= attacked + tolerance, "outlier", "not exceed outlier_attacked",
               hint="Count the clean point among the attacks.")  # fmt: skip
    check_each(attacked, attacked <= upper + tolerance, "outlier_attacked", "not exceed outlier_upper",
               hint="Either the bound is unsound or it is of another model or radius.")  # fmt: skip
    attacked = np.maximum(attacked, clean)  # what is left is rounding, and the order of areas should not hang on it
    upper = np.maximum(upper, attacked)
    return Sandwich(
        clean=metrics.auroc(inlier=-known, outlier=-clean),
        adversarial=adversarial_auroc(inlier=known, outlier_attacked=attacked),
        guaranteed=guaranteed_auroc(inlier=known, outlier_upper=upper),
        conservative_clean=metrics.conservative_auroc(inlier=-known, outlier=-clean),
        conservative_adversarial=adversarial_auroc(inlier=known, outlier_attacked=attacked, conservative=True),
        conservative_guaranteed=guaranteed_auroc(inlier=known, outlier_upper=upper, conservative=True),
        guaranteed_fpr95=guaranteed_fpr_at_tpr(inlier=known, outlier_upper=upper),
        n_inlier=known.size,
        n_outlier=clean.size,
        zero_gradient_share=zero_gradient_share,
    )
