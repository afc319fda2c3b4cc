r"""Detection that survives an attacker, as certificates and attacks see it.

**Here numbers are confidence: larger means less strange.** A certificate says how confident a model can become on an
outlier (``bounds.confidence_bounds``), so these functions take confidences or log-confidences (only their order counts)
and negate them once before they call ``caveat.metrics``. With upper bounds of the outliers' confidence, no
attacker within the radius can bring the area lower:

$$ GAUC \le \text{worst-case AUC} \le AAUC \le AUC $$

Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020,
section 4 and appendix C; AUPR and FPR in the same way in Meinke, Bitterwolf and Hein, NeurIPS 2022, appendix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat import metrics
from caveat._internal.checks import as_number, as_vector, check_each, same_length
from caveat.results import Estimate

__all__ = [
    "Sandwich",
    "adversarial_auroc",
    "conformal_guaranteed_auroc",
    "guaranteed_aupr",
    "guaranteed_auroc",
    "guaranteed_fpr_at_tpr",
    "sandwich",
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

    Returns
    -------
    float
        Between 0 and 1.

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

    Returns
    -------
    float
        Between 0 and 1.

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

    Returns
    -------
    float
        Between 0 and 1.

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

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> guaranteed_fpr_at_tpr(inlier=[0.9, 0.8, 0.7, 0.6], outlier_upper=[0.3, 0.65, 0.75], tpr=0.75)
    0.3333333333333333
    """
    inliers, bound = _strange(inlier, "inlier"), _strange(outlier_upper, "outlier_upper")
    return metrics.fpr_at_tpr(inlier=inliers, outlier=bound, tpr=tpr, positive="inlier")


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

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> round(guaranteed_aupr(inlier=[0.9, 0.8, 0.7], outlier_upper=[0.3, 0.75]), 4)
    0.9167
    """
    inliers, bound = _strange(inlier, "inlier"), _strange(outlier_upper, "outlier_upper")
    return metrics.aupr(inlier=inliers, outlier=bound, positive=positive)


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

    Returns
    -------
    Estimate
        ``value`` is the guaranteed AUROC of these samples, ``lower`` its bound against all inliers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> print(conformal_guaranteed_auroc(inlier=rng.normal(3, 1, 1000), outlier_upper=rng.normal(1, 1, 500)))
    0.915 [0.892, 0.932] (95 % exact band, each side, n = 1000) Holds for every attack within the certified radius.
    """
    inliers, bound = _strange(inlier, "inlier"), _strange(outlier_upper, "outlier_upper")
    estimate = metrics.conformal_auroc(inlier=inliers, outlier=bound, delta=delta, method=method, ood=ood)
    sentence = "Holds for every attack within the certified radius."
    return replace(estimate, caveat=f"{estimate.caveat} {sentence}".strip())


@final
@dataclass(frozen=True)
class Sandwich:
    """AUROC clean, attacked and guaranteed on the same samples, each with its conservative form. Higher is better.

    ``gap`` is what neither attack nor certificate settles: the worst case lies between ``guaranteed`` and
    ``adversarial``.

    Parameters
    ----------
    clean, adversarial, guaranteed
        AUROC without an attack, after the attack, and what no attack can undercut.
    conservative_clean, conservative_adversarial, conservative_guaranteed
        The same with ties as failures.
    guaranteed_fpr95
        Share of outliers that an attacker may get accepted where 95 % of the inliers are kept.
    n_inlier, n_outlier
        Number of samples.
    zero_gradient_share
        Share of the attacked outliers whose gradient was zero, or None: a large share means a weak attack.

    Examples
    --------
    >>> bounds = {"outlier": [0.1, 0.2], "outlier_attacked": [0.3, 0.85], "outlier_upper": [0.4, 0.95]}
    >>> print(sandwich(inlier=[0.9, 0.8], **bounds))
    GAUC <= AAUC <= AUC: 50.0 <= 75.0 <= 100.0 (2 inliers, 2 outliers)
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
    tolerance: float | ArrayLike = 1e-9,
) -> Sandwich:
    """The areas that are certified, attacked and clean, after a check that they can be true: GAUC <= AAUC <= AUC.

    The order is checked sample by sample: an attacked value above its certificate means that one of the two is wrong,
    and nothing is reported. All three areas are of the same outliers, because areas of different samples can change
    places by chance.

    Parameters
    ----------
    inlier
        Confidence of the inliers (n,); larger is less strange.
    outlier, outlier_attacked, outlier_upper
        Confidence of the same outliers (m,): unchanged, attacked, certified.
    zero_gradient_share
        Of the attack, shown with its number.
    tolerance
        How far a value may lie on the wrong side of another and still be rounding: a number, or one for each outlier.
        With bounds in real numbers (``ScoreBounds.exact``) and a model in another arithmetic, ``ScoreBounds.slack``.

    Returns
    -------
    Sandwich
        The three areas ``clean``, ``adversarial`` and ``guaranteed``, and their conservative forms.

    Examples
    --------
    >>> print(sandwich(inlier=[0.9, 0.8], outlier=[0.1, 0.2], outlier_attacked=[0.1, 0.85], outlier_upper=[0.4, 0.95]))
    GAUC <= AAUC <= AUC: 50.0 <= 75.0 <= 100.0 (2 inliers, 2 outliers)
    >>> sandwich(inlier=[0.9], outlier=[0.1], outlier_attacked=[0.7], outlier_upper=[0.6])
    Traceback (most recent call last):
    caveat.errors.InputError: outlier_attacked must not exceed outlier_upper, got 0.7 at row 0. ...
    """
    inliers = as_vector(inlier, "inlier", allow_infinite=True)
    clean = as_vector(outlier, "outlier", allow_infinite=True)
    attacked = as_vector(outlier_attacked, "outlier_attacked", allow_infinite=True)
    upper = as_vector(outlier_upper, "outlier_upper", allow_infinite=True)
    same_length(outlier=clean, outlier_attacked=attacked, outlier_upper=upper)  # areas of the same samples
    room = as_vector(np.atleast_1d(tolerance), "tolerance", allow_infinite=True)
    check_each(room, room >= 0, "tolerance", "be at least 0")
    if room.size != 1:
        same_length(outlier=clean, tolerance=room)
    if zero_gradient_share is not None:
        zero_gradient_share = as_number(zero_gradient_share, "zero_gradient_share", least=0, most=1)
    check_each(clean, clean <= attacked + room, "outlier", "not exceed outlier_attacked",
               hint="Count the clean point among the attacks.")  # fmt: skip
    check_each(attacked, attacked <= upper + room, "outlier_attacked", "not exceed outlier_upper",
               hint="Either the bound is unsound or it is of another model or radius.")  # fmt: skip
    attacked = np.maximum(attacked, clean)  # what is left is rounding, and the order of areas should not depend on it
    upper = np.maximum(upper, attacked)
    return Sandwich(
        clean=metrics.auroc(inlier=-inliers, outlier=-clean),
        adversarial=adversarial_auroc(inlier=inliers, outlier_attacked=attacked),
        guaranteed=guaranteed_auroc(inlier=inliers, outlier_upper=upper),
        conservative_clean=metrics.conservative_auroc(inlier=-inliers, outlier=-clean),
        conservative_adversarial=adversarial_auroc(inlier=inliers, outlier_attacked=attacked, conservative=True),
        conservative_guaranteed=guaranteed_auroc(inlier=inliers, outlier_upper=upper, conservative=True),
        guaranteed_fpr95=guaranteed_fpr_at_tpr(inlier=inliers, outlier_upper=upper),
        n_inlier=inliers.size,
        n_outlier=clean.size,
        zero_gradient_share=zero_gradient_share,
    )


def _strange(confidence: ArrayLike, name: str) -> NDArray[np.float64]:
    """The library's direction: the larger, the stranger."""
    return -as_vector(confidence, name, allow_infinite=True)


def _auroc(inlier: NDArray[np.float64], outlier: NDArray[np.float64], conservative: bool) -> float:
    measure = metrics.conservative_auroc if conservative else metrics.auroc
    return measure(inlier=inlier, outlier=outlier)
