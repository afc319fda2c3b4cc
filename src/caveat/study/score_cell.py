"""The score cell: one score of one source, fitted once and measured against every outlier set."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._checks import as_vector
from caveat._streams import stream
from caveat.conformal import FPRBand
from caveat.errors import InputError
from caveat.metrics import (
    aupr,
    auroc_interval,
    conformal_auroc,
    ood_failures,
    proportion_interval,
    selective_intervals,
)
from caveat.metrics.detection import detection_threshold
from caveat.results import Estimate
from caveat.scores import Score
from caveat.scores.together import fit_all
from caveat.study.cells import Cell, canonical_json
from caveat.study.curves import histogram, risk_points, roc_band
from caveat.study.expansion import build_score
from caveat.study.schema import Row, estimate_row, make_row
from caveat.study.sources import Parts

__all__ = ["score_rows"]

Floats = NDArray[np.float64]
_TPR = 0.95


def score_rows(cell: Cell, parts: Parts) -> tuple[list[Row], dict[str, Any]]:
    """Metrics, curves and histograms of one score; nothing, and why, where the outputs do not allow it."""
    told = cell.params
    score = build_score(told["score"], told["params"], told["projection"], told.get("variance", 0.95))
    if reason := _cannot(score, parts):
        if told.get("named", True):
            raise InputError(f"score '{told['score']}' {reason}. Add it to the outputs, or leave the score out.")
        return [], {"skipped": reason}
    if parts.train is not None:
        fit_all([score], parts.train, parts.calibration)
    inside = score.score(parts.held_out)
    outside = {name: score.score(outputs) for name, outputs in parts.outliers.items()}
    for name, values in {"inlier": inside, **outside}.items():
        as_vector(values, f"the score on {name}")  # NaN and infinity are a failure of the cell, not a rank

    measure = _Measure(told["score"], told["metrics"], told["delta"], told["resamples"], cell.seed)
    correct = parts.held_out.correct
    rows = [] if correct is None else measure.own_errors(inside, correct)
    rows += _histogram_rows(inside, outside)
    if outside:
        band = FPRBand(inside, delta=told["delta"], two_sided=True)
        for name, values in outside.items():
            found = measure.against(inside, values, correct, name)
            curve = roc_band(band, values)
            found += [
                make_row("roc", "tpr", float(y), x=float(x), lower=float(low), upper=float(high), level=band.level,
                         n=band.n, method=band.name)
                for x, y, low, high in zip(*curve, strict=True)
            ]  # fmt: skip
            rows += [row | {"outlier": name} for row in found]
    common = {"source": told["source"], "seed": cell.seed, "score": told["score"], "projection": told["projection"]}
    common |= {"params": canonical_json(told["params"])}
    return [row | common for row in rows], {}


def _cannot(score: Score, parts: Parts) -> str:
    for outputs in (parts.held_out, *parts.outliers.values()):
        if reason := score.missing(train=parts.train, outputs=outputs):
            return reason
    return ""


class _Measure:
    """The metrics that a plan asks for."""

    def __init__(self, score: str, metrics: Collection[str], delta: float, resamples: int, seed: int) -> None:
        self.score, self.metrics, self.delta, self.resamples, self.seed = score, metrics, delta, resamples, seed

    def own_errors(self, values: Floats, correct: NDArray[np.bool_]) -> list[Row]:
        """How well the score finds the model's own errors."""
        rows = self._selective(values, correct, stream(self.seed, "bootstrap of own errors", self.score))
        if "auroc" in self.metrics and correct.any() and not correct.all():
            found = auroc_interval(inlier=values[correct], outlier=values[~correct], delta=self.delta)
            rows.insert(0, estimate_row("metric", "auroc", found))
        return rows

    def against(self, inside: Floats, outside: Floats, correct: NDArray[np.bool_] | None, outlier: str) -> list[Row]:
        """How well the score tells one outlier set from the inliers."""
        found: dict[str, Estimate] = {}
        delta = self.delta
        if "auroc" in self.metrics:
            found["auroc"] = auroc_interval(inlier=inside, outlier=outside, delta=delta)
        if "conformal_auroc" in self.metrics:
            found["conformal_auroc"] = conformal_auroc(inlier=inside, outlier=outside, delta=delta, two_sided=True)
        if "fpr95" in self.metrics:
            caught = detection_threshold(inlier=inside, outlier=outside, tpr=_TPR, positive="outlier")
            kept = detection_threshold(inlier=inside, outlier=outside, tpr=_TPR, positive="inlier")
            rejected, accepted = int((inside >= caught).sum()), int((outside <= kept).sum())
            found["fpr95_outlier_positive"] = proportion_interval(rejected, inside.size, delta=delta)
            found["fpr95_inlier_positive"] = proportion_interval(accepted, outside.size, delta=delta)
        rows = [estimate_row("metric", name, estimate) for name, estimate in found.items()]
        if "aupr" in self.metrics:
            rows.append(
                make_row("metric", "aupr", aupr(inlier=inside, outlier=outside), n=inside.size + outside.size,
                         method="no interval")
            )  # fmt: skip
        if correct is not None and correct.any():
            rng = stream(self.seed, "bootstrap", self.score, outlier)
            rows += self._selective(*ood_failures(inlier=inside, correct=correct, outlier=outside), rng)
        return rows

    def _selective(self, values: Floats, right: NDArray[np.bool_], rng: np.random.Generator) -> list[Row]:
        wanted = [name for name in ("aurc", "augrc") if name in self.metrics]
        found = (
            selective_intervals(
                score=values, correct=right, rng=rng, metrics=wanted, delta=self.delta, resamples=self.resamples
            )
            if wanted
            else {}
        )
        rows = [estimate_row("metric", name, estimate) for name, estimate in found.items()]
        coverage, risk = risk_points(values, right)
        rows += [
            make_row("risk", "selective", float(y), x=float(x), n=right.size)
            for x, y in zip(coverage, risk, strict=True)
        ]
        return rows


def _histogram_rows(inside: Floats, outside: dict[str, Floats]) -> list[Row]:
    found = histogram({"": inside, **outside})
    rows = []
    for name, shares in found.shares.items():
        n = inside.size if name == "" else outside[name].size
        kind = "outlier" if name else "inlier"
        rows += [
            make_row("histogram", kind, share, x=float(edge), outlier=name, n=n)
            for edge, share in zip(found.edges.tolist(), [*shares.tolist(), float("nan")], strict=True)
        ]
    return rows
