"""The families of the benchmark page: what is measured, and what each method promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["FAMILIES", "Family"]


@dataclass(frozen=True)
class Family:
    """Title, task, what ``error`` and ``size`` mean, and the promised error of each method (None: no promise)."""

    title: str
    task: str
    error: str = ""
    size: str = ""
    promised: Mapping[str, float | None] = field(default_factory=dict)
    default: float | None = None
    note: str = ""
    timed: bool = True

    def promise(self, method: str) -> float | None:
        """The promised error of a method."""
        return self.promised.get(method, self.default)


FAMILIES = {
    "ood": Family(
        "OOD scores, large", "Fit on 20,000 rows x 512 features of 100 classes, score 5,000 rows, float32.",
        note="Scores promise nothing by themselves; the promise comes with a threshold (see outlier selection). msp: "
        "half of these probabilities round to 1 in float32 and tie; Caveat keeps them apart, hence the rank "
        "correlation.",
    ),
    "ood_small": Family("OOD scores, small", "Fit on 2,000 rows x 64 features of 10 classes, score 500 rows, float32."),
    "sets": Family(
        "Prediction sets", "Calibrate on 5,000 rows x 100 classes, predict 10,000 rows, from given probabilities.",
        "share of true labels outside the set", "labels per set", default=0.1,
        note="Promise: 200 calibration rows of 10 classes. MAPIE's aps always keeps the last label, so its sets are "
        "larger; its raps spends a fifth of the rows on tuning.",
    ),
    "intervals": Family(
        "Intervals for regression", "Calibrate on 100,000 residuals, predict 100,000 intervals, float64.",
        "share of values outside the interval", "width", default=0.1,
        note="Promise: 100 calibration rows. TorchCP computes in float32, the others in float64.",
    ),
    "selection": Family(
        "Conformal p-values and outlier selection", "10,000 calibration scores, 100,000 test scores, a tenth outliers.",
        "false discovery rate; false-alarm rate; share of calibration sets that break the promise",
        "share of outliers found",
        {"false alarms": 0.05}, 0.1,
        "Promise: 500 calibration scores. bh and storey bound the false discovery rate. \"false alarms\" bounds the "
        "false-alarm rate on average over calibration sets, \"90 % sure\" in 90 % of them. nonconform's bound there "
        "holds for all thresholds at once, a stronger promise that finds fewer outliers.",
    ),
    "risk": Family(
        "Risk control", "1,000 rows x 10 labels, 100 candidate thresholds: bound the share of true labels missed.",
        "share of calibration sets with a true risk above alpha; for crc the mean risk", "labels kept per row",
        {"crc": 0.1005}, 0.1,
        "Promise: 200 rows, alpha 0.1005, delta 0.1: the setting in which MAPIE's bound failed most often of several "
        "that were tried; in others it was broken less often or not at all. Caveat takes the matrix of losses, "
        "MAPIE the probabilities; both times include the losses. "
        "Caveat's hoeffding_bentkus is a sharper test than MAPIE's hoeffding.",
    ),
    "drift": Family(
        "Drift martingales", "1,000 calibration scores, a stream of 5,000 scores.",
        "share of quiet streams of 2,000 points that ring", "points until a shift of 0.5 sd is found (mean)",
        {"KSWIN": None, "KSWIN 0.0001": None, "ADWIN": None}, 0.05,
        "Promise: 100 calibration scores. river's detectors promise a level for each test, not for a stream. A stream "
        "without an alarm counts with all its 1,800 points. A detector that stops at its alarm needs less time.",
    ),
    "ranks": Family(
        "Rank tests and cliques", "20 methods in 100 blocks: Friedman, all pairs.",
        "share of tables in which methods that are all alike are told apart", "share of true differences found",
        {"conover unadjusted": None}, 0.05,
        "Promise: 6 methods in 20 blocks. \"Among others\": two alike methods among four that are far apart.",
    ),
    "metrics": Family(
        "Detection metrics", "100,000 inliers and 100,000 outliers, float32, with ties.",
        "share of draws with a bound above the true AUROC", "true AUROC minus bound", default=0.05,
        note="A point value promises nothing. Only Caveat gives a bound.",
    ),
    "definitions": Family(
        "Definitions with an exact answer", "Cases whose answer is known exactly, so that every difference counts.",
        timed=False,
    ),
}  # fmt: skip
