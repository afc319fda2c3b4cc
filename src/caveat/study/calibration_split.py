"""Where no calibration data are given, a random half of the inliers calibrates and the other half is measured."""

from __future__ import annotations

from caveat._streams import stream
from caveat.outputs import Outputs

__all__ = ["HALVES", "calibration_split"]

HALVES = "A random half of the inliers calibrated; the other half was looked at."


def calibration_split(inlier: Outputs, seed: int) -> tuple[Outputs, Outputs]:
    """Calibration half and measured half, by a random stream that nothing else draws from.

    Examples
    --------
    >>> said = Outputs(logits=[[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    >>> [part.n for part in calibration_split(said, seed=0)]
    [1, 2]
    """
    half = stream(seed, "calibration split").permutation(inlier.n) < inlier.n // 2
    return inlier[half], inlier[~half]
