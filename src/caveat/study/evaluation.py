"""What an evaluation measured: frozen numbers that a report can print, each with its doubt."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat.errors import InputError
from caveat.metrics.coverage_verdict import CoverageVerdict
from caveat.metrics.selective import RiskCurve
from caveat.results import Estimate

__all__ = ["DataFacts", "Detection", "Evaluation", "Misclassification", "Ranked", "SetFacts"]


@final
@dataclass(frozen=True)
class DataFacts:
    """One data set of the evaluation."""

    role: Literal["train", "calibration", "inlier", "outlier"]
    name: str
    n: int
    fields: str
    accuracy: Estimate | None


@final
@dataclass(frozen=True)
class Detection:
    """One score against one outlier set."""

    score: str
    outlier: str
    auroc: Estimate
    auroc_band: Estimate  # holds for any n: over the draw of the inliers, for these outliers
    fpr_outlier_positive: Estimate  # share of inliers rejected when `tpr` of the outliers are caught
    fpr_inlier_positive: Estimate  # share of outliers accepted when `tpr` of the inliers are kept
    augrc: Estimate | None  # outliers are failures, inlier errors are dropped; None without labels


@final
@dataclass(frozen=True)
class Misclassification:
    """One score as a detector of the model's own errors on inliers."""

    score: str
    augrc: Estimate
    auroc: Estimate | None  # None where every answer is right, or every one is wrong
    curve: RiskCurve


@final
@dataclass(frozen=True)
class Ranked:
    """One line of the ranking: mean AUROC over the outlier sets, and whether it can be told from the best.

    Two criteria, both shown: the guaranteed bands, which hold for any number of inliers but say nothing about other
    outliers, and a paired test on the same samples, which is mostly sharper but holds for large samples. A score is
    tied with the best unless both separate it.
    """

    rank: int  # scores that the paired test cannot tell from the first of their group share its rank
    score: str
    mean_auroc: Estimate
    p_value: float  # paired DeLong test of equal mean AUROC with the best score, Holm-adjusted; 1 for the best itself
    told_apart: bool  # from the best, by that test
    auroc_band: Estimate  # of the mean AUROC; holds for any n
    overlaps_best: bool  # whether the band shares a point with that of the best score

    @property
    def tied_with_best(self) -> bool:
        """Whether the guaranteed bands overlap, or the paired test sees no difference."""
        return self.overlaps_best or not self.told_apart


@final
@dataclass(frozen=True)
class SetFacts:
    """Prediction sets calibrated on one part of the inliers and looked at on the other."""

    method: str
    alpha: float
    promised: float
    coverage: Estimate
    verdict: CoverageVerdict  # on the number covered, given the sizes of both parts
    mean_size: float
    sizes: NDArray[np.intp]  # how many inliers have a set of size 0, 1, ..., C
    outlier_sizes: Mapping[str, NDArray[np.intp]]  # the same for each outlier set: outliers carry no promise
    n_calibration: int
    caveat: str


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """Everything that was measured, ready to be printed. Nothing here is recomputed by a report."""

    title: str
    data: tuple[DataFacts, ...]
    detections: tuple[Detection, ...]
    ranking: tuple[Ranked, ...]
    misclassifications: tuple[Misclassification, ...]
    sets: SetFacts | None
    strangeness: Mapping[str, Mapping[str, NDArray[np.float64]]]  # score -> data set ("inlier" or an outlier's name)
    skipped: Mapping[str, str]  # score -> why it was not computed
    alpha: float
    delta: float
    tpr: float
    seed: int
    seconds: float
    versions: Mapping[str, str]

    def __repr__(self) -> str:
        best, sizes = self.best, [f"{facts.role} {facts.n}" for facts in self.data if facts.role != "outlier"]
        return (
            f"Evaluation({reprlib.repr(self.title)}, {', '.join(sizes)}, outlier sets {len(self.outliers)}, "
            f"scores {len(self.ranking)}, best {reprlib.repr(best.score)} with mean AUROC {best.mean_auroc.value:.3f} "
            f"[{best.mean_auroc.lower:.3f}, {best.mean_auroc.upper:.3f}])"
        )

    @property
    def outliers(self) -> tuple[str, ...]:
        """Names of the outlier sets, in the order given."""
        return tuple(facts.name for facts in self.data if facts.role == "outlier")

    @property
    def inlier(self) -> DataFacts:
        """The held-out inliers that everything was measured on."""
        return next(facts for facts in self.data if facts.role == "inlier")

    @property
    def best(self) -> Ranked:
        """The score with the largest mean AUROC; ``tied`` says which others share the place."""
        return self.ranking[0]

    @property
    def tied(self) -> tuple[str, ...]:
        """Scores tied with the best, without the best itself: by their guaranteed bands or by the paired test."""
        return tuple(line.score for line in self.ranking[1:] if line.tied_with_best)

    @property
    def overlapping(self) -> tuple[str, ...]:
        """Scores whose guaranteed band overlaps that of the best, without the best itself."""
        return tuple(line.score for line in self.ranking[1:] if line.overlaps_best)

    @property
    def not_told_apart(self) -> tuple[str, ...]:
        """Scores that the paired test cannot tell from the best, without the best itself."""
        return tuple(line.score for line in self.ranking[1:] if not line.told_apart)

    def detection(self, score: str, outlier: str) -> Detection:
        """The numbers of one score against one outlier set."""
        for row in self.detections:
            if (row.score, row.outlier) == (score, outlier):
                return row
        raise InputError(f"there is no result of score '{score}' on outlier set '{outlier}'.")

    def rows(self) -> list[dict[str, Any]]:
        """A long table: one row per score, outlier set and metric; a number over all sets or none has no outlier."""
        table: list[dict[str, Any]] = []

        def add(score: str, outlier: str, metric: str, number: Estimate | None) -> None:
            if number is not None:
                table.append({
                    "score": score, "outlier": outlier, "metric": metric, "value": number.value,
                    "lower": number.lower, "upper": number.upper, "level": number.level, "n": number.n,
                    "method": number.method,
                })  # fmt: skip

        for row in self.detections:
            percent = f"{100 * self.tpr:g}"
            add(row.score, row.outlier, "auroc", row.auroc)
            add(row.score, row.outlier, "conformal_auroc", row.auroc_band)
            add(row.score, row.outlier, f"fpr{percent}_outlier_positive", row.fpr_outlier_positive)
            add(row.score, row.outlier, f"fpr{percent}_inlier_positive", row.fpr_inlier_positive)
            add(row.score, row.outlier, "augrc", row.augrc)
        for ranked in self.ranking:
            add(ranked.score, "", "mean_auroc", ranked.mean_auroc)
            add(ranked.score, "", "mean_conformal_auroc", ranked.auroc_band)
        for failure in self.misclassifications:
            add(failure.score, "", "misclassification_augrc", failure.augrc)
            add(failure.score, "", "misclassification_auroc", failure.auroc)
        return table
