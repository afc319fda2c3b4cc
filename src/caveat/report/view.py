"""Findings by model, outlier set and method, in the order in which a page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.ranking import share_above
from caveat.conformal import mean_bounds
from caveat.evaluation.decide import Decision
from caveat.evaluation.findings import Assessment, Findings
from caveat.evaluation.records import (
    REGIMES,
    Curve,
    Data,
    Detection,
    Histogram,
    Method,
    ModelFacts,
    Scores,
    Selective,
    SetFacts,
)
from caveat.metrics import Placements, mean_auroc_interval
from caveat.results import Estimate
from caveat.scores import catalogue

__all__ = ["Place", "Unit", "View", "families", "mean_of", "regime_place"]

Floats = NDArray[np.float64]
Unit = tuple[str, int]  # model, seed
ROLES = ("train", "tuning", "calibration", "inlier", "outlier", "confirm")


class Place(NamedTuple):
    """One model and seed, and an outlier set; without one, the model's own errors."""

    model: str
    seed: int
    outlier: str


@final
class View:
    """Read access to findings. Orders do not depend on the order of the records: a study and an evaluation agree."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.delta, self.alpha = findings.delta, findings.alpha
        self.units: tuple[Unit, ...] = findings.models
        self.models = tuple(dict.fromkeys(model for model, _ in self.units))
        self.groups: dict[str, list[str]] = {}  # in-distribution set and backbone -> models, in a study over a matrix
        for model in self.models if findings.groups else ():
            self.groups.setdefault(findings.groups.get(model, model), []).append(model)
        self.single = len(self.units) == 1
        self.detections = {(Place(*_place(d)), str(d.method)): d for d in findings.of(Detection)}
        self.selectives = {(Place(*_place(s)), str(s.method)): s for s in findings.of(Selective)}
        self.scores = {(Place(*_place(s)), s.role, str(s.method)): s.values for s in findings.of(Scores)}
        self.regimes = {(r.block.model, r.block.outlier): r.block.regime for r in findings.of(Detection)}

    # -- orders -------------------------------------------------------------------------------------------------------

    @cached_property
    def methods(self) -> Mapping[str, Method]:
        """Every measured method by its name."""
        measured = [r.method for r in self.findings.of(Detection)] + [r.method for r in self.findings.of(Selective)]
        return {str(method): method for method in sorted(measured, key=str)}

    def outliers(self, model: str) -> list[str]:
        """Outlier sets of a model: near, mid, far, those without a regime; by name within."""
        own = {outlier: regime for (name, outlier), regime in self.regimes.items() if name == model}
        return sorted(own, key=lambda outlier: (regime_place(own[outlier]), outlier))

    def regime(self, model: str, outlier: str) -> str:
        return self.regimes.get((model, outlier), "")

    @cached_property
    def regime_names(self) -> tuple[str, ...]:
        return tuple(sorted({r for r in self.regimes.values() if r}, key=regime_place))

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Every model, seed and outlier set."""
        measured = {place for place, _ in self.detections}
        every = (Place(m, s, o) for m, s in self.units for o in self.outliers(m))
        return tuple(place for place in every if place in measured)

    @cached_property
    def _families(self) -> Mapping[str, str]:
        return families()

    def family(self, name: str) -> str:
        """What a method reads."""
        return self._families.get(self.methods[name].score, "other")

    def named(self, model: str) -> str:
        """The model where there are several; a page about one model does not repeat its name."""
        return model if len(self.models) > 1 else ""

    def unit_name(self, unit: Unit) -> str:
        """The model, and the seed where it has several; empty on a page about one model."""
        model, seed = unit
        if self.single:
            return ""
        return f"{model}, seed {seed}" if sum(m == model for m, _ in self.units) > 1 else model

    def headed(self, model: str, text: str) -> str:
        """A heading that names the model where there are several."""
        return f"{model}: {text}" if len(self.models) > 1 else text

    # -- facts --------------------------------------------------------------------------------------------------------

    def assessment(self, unit: Unit) -> Assessment | None:
        return self.findings.assessments.get(unit)

    def decision(self, unit: Unit) -> Decision | None:
        assessment = self.assessment(unit)
        return None if assessment is None else assessment.decision

    def data(self, unit: Unit) -> list[Data]:
        mine = [d for d in self.findings.of(Data) if (d.block.model, d.block.seed) == unit]
        return sorted(mine, key=lambda d: (ROLES.index(d.role), regime_place(d.block.regime), d.block.outlier))

    def facts(self, unit: Unit) -> ModelFacts | None:
        return next((f for f in self.findings.of(ModelFacts) if (f.block.model, f.block.seed) == unit), None)

    def sets(self, model: str) -> list[SetFacts]:
        """Prediction sets of a model with its first seed, in-distribution first."""
        mine = [s for s in self.findings.of(SetFacts) if s.block.model == model]
        first = min((s.block.seed for s in mine), default=0)
        mine = [s for s in mine if s.block.seed == first]
        return sorted(mine, key=lambda s: (s.set_method, regime_place(s.block.regime) if s.block.outlier else -1,
                                           s.block.outlier))  # fmt: skip

    def number(self, place: Place, method: str, metric: str) -> Estimate | None:
        """One measured number; without an outlier set, one of the model's own errors."""
        for table in (self.detections, self.selectives):
            estimate = getattr(table.get((place, method)), metric, None)
            if isinstance(estimate, Estimate):
                return estimate
        if metric == "auroc" and place.outlier:  # a plan may not ask for it, but the ranking rests on it
            return self.mean_auroc([place], method)
        return None

    def mean(self, places: Sequence[Place], method: str, metric: str) -> Estimate | None:
        """Mean over places with the range of its values; the number itself where there is one place."""
        return mean_of([self.number(place, method, metric) for place in places])

    def mean_auroc(self, places: Sequence[Place], method: str) -> Estimate | None:
        """Mean AUROC over the outlier sets of one model and seed, with DeLong's interval."""
        inside = self.scores.get((places[0]._replace(outlier=""), "inlier", method)) if places else None
        outside = [self.scores.get((place, "outlier", method)) for place in places]
        values = [v for v in outside if v is not None]
        if inside is None or len(values) < len(places):
            return None
        return mean_auroc_interval(Placements.of(inlier=inside, outliers=values), delta=self.delta)

    def guaranteed(self, places: Sequence[Place], method: str) -> Estimate | None:
        """Guaranteed interval of the mean AUROC, of this one number.

        The mean over the outlier sets of one model and seed is a mean over its inliers, too, and is bounded by betting.
        Intervals of several models and seeds hold together with at least 1 minus the sum of their allowed failures
        (union bound).
        """
        if not places or any(self.number(place, method, "auroc_guaranteed") is None for place in places):
            return None
        units = [place[:2] for place in places]
        if (level := 1 - self.delta * len(set(units))) <= 0.5:
            return None
        bounds = []
        for unit in dict.fromkeys(units):
            inside = self.scores.get((Place(*unit, ""), "inlier", method))
            outside = [self.scores.get((place, "outlier", method)) for place in places if place[:2] == unit]
            values = [v for v in outside if v is not None]
            if inside is None or len(values) < len(outside):
                return None
            shares = np.mean([share_above(inside, v) for v in values], axis=0)
            bounds += [mean_bounds(shares, delta=self.delta, two_sided=True)] * len(values)
        value, lower, upper = (float(np.mean([getattr(n, k) for n in bounds])) for k in ("value", "lower", "upper"))
        return Estimate(value, lower, upper, level=level, n=min(n.n for n in bounds), method=bounds[0].method)

    # -- curves -------------------------------------------------------------------------------------------------------

    @cached_property
    def _curves(self) -> dict[tuple[str, str, str, str], list[Curve]]:
        curves: dict[tuple[str, str, str, str], list[Curve]] = {}
        for curve in self.findings.of(Curve):
            curves.setdefault((curve.kind, curve.block.model, curve.block.outlier, curve.name), []).append(curve)
        return curves

    def curve(self, kind: str, model: str, outlier: str, name: str) -> tuple[Floats, Floats, Floats, Floats] | None:
        """x, y, lower and upper of a curve, averaged over the seeds; a mean over seeds has no band."""
        curves = self._curves.get((kind, model, outlier, name))
        if not curves:
            return None
        first, *others = curves
        if not others:
            return first.x, first.y, first.lower, first.upper
        none = np.full(first.x.size, np.nan)
        return first.x, np.mean([first.y, *(np.interp(first.x, c.x, c.y) for c in others)], axis=0), none, none

    @cached_property
    def _histograms(self) -> dict[tuple[Unit, str], dict[str, Histogram]]:
        histograms: dict[tuple[Unit, str], dict[str, Histogram]] = {}
        for h in self.findings.of(Histogram):
            histograms.setdefault(((h.block.model, h.block.seed), h.name), {})[h.block.outlier] = h
        return histograms

    def histogram(self, unit: Unit, name: str) -> dict[str, Histogram]:
        """Outlier set -> histogram of a score; the key "" holds the inliers. All share their edges."""
        return self._histograms.get((unit, name), {})


def families() -> dict[str, str]:
    """Score -> what it reads, from the catalogue."""
    reads_by_score = {}
    for entry in catalogue():
        reads = {*entry.needs, *entry.fits_on}
        if "mc_logits" in reads:
            family = "dropout passes"
        elif "layers" in reads:
            family = "layers"
        elif "features" in reads:
            family = "features and head" if reads & {"head", "logits", "probs"} else "features"
        else:
            family = "logits"
        reads_by_score[entry.name] = family
    return reads_by_score


def mean_of(values: Sequence[Estimate | float | None]) -> Estimate | None:
    """The only value, or the mean of several with their range in place of an interval."""
    none = np.nan
    estimates = [
        v if isinstance(v, Estimate) else Estimate(v, none, none, none, 1, "") for v in values if v is not None
    ]
    present = [estimate for estimate in estimates if np.isfinite(estimate.value)]
    if len(present) < 2:
        return present[0] if present else None
    numbers = [estimate.value for estimate in present]
    return Estimate(float(np.mean(numbers)), min(numbers), max(numbers), 1.0, len(numbers), f"range of {len(numbers)}")


def regime_place(regime: str) -> int:
    return REGIMES.index(regime) if regime in REGIMES else len(REGIMES) + (not regime)


def _place(record: Detection | Selective | Scores) -> tuple[str, int, str]:
    return record.block.model, record.block.seed, record.block.outlier
