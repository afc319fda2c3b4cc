r"""Detection that survives an attacker, as certificates and attacks see it.

**Here numbers are confidence: larger means less strange.** A certificate says how confident a model can become on an
outlier (``nn.confidence_bounds``), so these functions take confidences or log-confidences, of which only the order
counts, and turn them round once before they call ``caveat.metrics``. With upper bounds of the outliers' confidence, no
attacker within the radius can bring the area lower:

$$ GAUC \le \text{worst-case AUC} \le AAUC \le AUC $$

Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020,
section 4 and appendix C; AUPR and FPR in the same way in Meinke, Bitterwolf and Hein, NeurIPS 2022, appendix.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat import metrics
from caveat._internal.checks import as_vector
from caveat.results import Estimate

__all__ = [
    "adversarial_auroc",
    "conformal_guaranteed_auroc",
    "guaranteed_aupr",
    "guaranteed_auroc",
    "guaranteed_fpr_at_tpr",
    "two_sided_auroc",
]


def guaranteed_auroc(*, inlier: ArrayLike, outlier_upper: ArrayLike, conservative: bool = False) -> float:
    """AUROC that no attacker on the outliers can undercut (GAUC). Higher is better.

    Parameters
    ----------
    inlier
        Confidence of the inliers (n,); larger is less strange.
    outlier_upper
        Certified upper bounds of the confidence of the outliers (m,).
    conservative
        False: ties count one half. True: a tie is a failure, which matters where bounds saturate at confidence 1.

    Examples
    --------
    >>> guaranteed_auroc(inlier=[0.9, 0.8, 0.7], outlier_upper=[0.3, 0.75])
    0.8333333333333334
    >>> guaranteed_auroc(inlier=[1.0, 1.0], outlier_upper=[1.0]), guaranteed_auroc(
    ...     inlier=[1.0, 1.0], outlier_upper=[1.0], conservative=True)
    (0.5, 0.0)
    """
    return _auroc(_strange(inlier, "inlier"), _strange(outlier_upper, "outlier_upper"), conservative)


def adversarial_auroc(*, inlier: ArrayLike, outlier_attacked: ArrayLike, conservative: bool = False) -> float:
    """AUROC after an attack on the outliers (AAUC). Higher is better, but a weak attack flatters.

    Parameters
    ----------
    inlier
        Confidence of the inliers (n,); larger is less strange.
    outlier_attacked
        Confidence that the attack reached on the outliers (m,): sample by sample the worst of all tries.
    conservative
        Whether a tie is a failure rather than one half.

    Examples
    --------
    >>> round(adversarial_auroc(inlier=[0.9, 0.8, 0.7], outlier_attacked=[0.2, 0.7]), 4)
    0.9167
    """
    return _auroc(_strange(inlier, "inlier"), _strange(outlier_attacked, "outlier_attacked"), conservative)


def two_sided_auroc(*, inlier_lower: ArrayLike, outlier_upper: ArrayLike, conservative: bool = False) -> float:
    """AUROC that no attacker on inliers and outliers at once can undercut. Higher is better.

    Parameters
    ----------
    inlier_lower
        Certified lower bounds of the confidence of the inliers (n,).
    outlier_upper
        Certified upper bounds of the confidence of the outliers (m,).
    conservative
        Whether a tie is a failure rather than one half.

    Examples
    --------
    >>> two_sided_auroc(inlier_lower=[0.6, 0.2], outlier_upper=[0.3, 0.75])
    0.25
    """
    return _auroc(_strange(inlier_lower, "inlier_lower"), _strange(outlier_upper, "outlier_upper"), conservative)


def guaranteed_fpr_at_tpr(*, inlier: ArrayLike, outlier_upper: ArrayLike, tpr: float = 0.95) -> float:
    """Share of outliers an attacker may get accepted where ``tpr`` of the inliers are kept (GFPR). Lower is better.

    Parameters
    ----------
    inlier, outlier_upper
        As in ``guaranteed_auroc``.
    tpr
        Share of inliers that must be kept; 0.95 is the habit.

    Examples
    --------
    >>> guaranteed_fpr_at_tpr(inlier=[0.9, 0.8, 0.7, 0.6], outlier_upper=[0.3, 0.65, 0.75], tpr=0.75)
    0.3333333333333333
    """
    known, bound = _strange(inlier, "inlier"), _strange(outlier_upper, "outlier_upper")
    return metrics.fpr_at_tpr(inlier=known, outlier=bound, tpr=tpr, positive="inlier")


def guaranteed_aupr(
    *, inlier: ArrayLike, outlier_upper: ArrayLike, positive: Literal["outlier", "inlier"] = "inlier"
) -> float:
    """Average precision that no attacker on the outliers can undercut (GAUPR). Higher is better.

    Parameters
    ----------
    inlier, outlier_upper
        As in ``guaranteed_auroc``.
    positive
        Which class precision speaks of.

    Examples
    --------
    >>> round(guaranteed_aupr(inlier=[0.9, 0.8, 0.7], outlier_upper=[0.3, 0.75]), 4)
    0.9167
    """
    known, bound = _strange(inlier, "inlier"), _strange(outlier_upper, "outlier_upper")
    return metrics.aupr(inlier=known, outlier=bound, positive=positive)


def conformal_guaranteed_auroc(
    *,
    inlier: ArrayLike,
    outlier_upper: ArrayLike,
    delta: float = 0.05,
    method: str | ArrayLike = "exact",
    ood: Literal["sample", "population"] = "sample",
) -> Estimate:
    """Guaranteed AUROC with confidence: the certificate on the outliers times the band on the inliers.

    With probability 1 - delta over the inliers, the AUROC against *all* inliers is at least ``lower``, whatever an
    attacker does to the outliers within the radius. The certificate has no error of its own; the band holds for every
    n (``metrics.conformal_auroc``). Higher is better.

    Parameters
    ----------
    inlier
        Confidence of inliers (n,), independent of each other and of training.
    outlier_upper
        Certified upper bounds of the outliers' confidence (m,).
    delta
        Allowed failure of each bound.
    method
        The boundary, see ``conformal.FPRBand``; or ``"betting"``, see ``metrics.conformal_auroc``.
    ood
        ``"sample"``: for these outliers. ``"population"``: for all outliers of their kind; half of delta is spent on
        them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> print(conformal_guaranteed_auroc(inlier=rng.normal(3, 1, 1000), outlier_upper=rng.normal(1, 1, 500)))
    0.915 [0.892, 0.932] (95 % exact band, each side, n = 1000) Holds for every attack within the certified radius.
    """
    known, bound = _strange(inlier, "inlier"), _strange(outlier_upper, "outlier_upper")
    found = metrics.conformal_auroc(inlier=known, outlier=bound, delta=delta, method=method, ood=ood)
    sentence = "Holds for every attack within the certified radius."
    return replace(found, caveat=f"{found.caveat} {sentence}".strip())


def _strange(confidence: ArrayLike, name: str) -> NDArray[np.float64]:
    """The library's direction: the larger, the stranger."""
    return -as_vector(confidence, name, allow_infinite=True)


def _auroc(inlier: NDArray[np.float64], outlier: NDArray[np.float64], conservative: bool) -> float:
    measure = metrics.conservative_auroc if conservative else metrics.auroc
    return measure(inlier=inlier, outlier=outlier)
