"""scikit-learn models: prediction sets for a classifier, intervals for a regressor, OOD scores.

python examples/sklearn_model.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import caveat
from caveat import Outputs, conformal, scores


def classify(rng: np.random.Generator) -> None:
    """Prediction sets of three grape varieties with 90 % coverage."""
    wine = load_wine()
    x, y = (
        wine.data[:, :3],
        np.array(["barolo", "grignolino", "barbera"])[wine.target],
    )  # three columns only, to make it hard
    train, known, new = np.split(rng.permutation(len(y)), [60, 120])
    forest = RandomForestClassifier(random_state=0).fit(x[train], y[train])
    model = caveat.wrap(forest, alpha=0.1).calibrate(x[known], y[known])
    sets = model.predict_set(x[new])
    truth = np.searchsorted(model.classes_, y[new])
    print(f"wine, three columns, 60 rows train and 60 calibrate: {sets}")
    print(f"  right {np.mean(forest.predict(x[new]) == y[new]):.3f}, covered {sets.coverage(truth):.3f}")
    for names, p in list(zip(model.predict_labels(x[new]), model.predict_p(x[new]), strict=True))[:3]:
        values = ", ".join(f"{name} {value:.2f}" for name, value in zip(model.classes_, p, strict=True))
        print(f"  {' or '.join(names) or 'none of them':32} p-values: {values}")
    # With cv, all 120 rows train and calibrate. What is proven is less than what is typical; the result says both.
    rows = np.concatenate([train, known])
    cross = caveat.wrap(RandomForestClassifier(random_state=0), cv=5).fit(x[rows], y[rows])
    print("cross-conformal, the same 120 rows train and calibrate:")
    for sets in cross.predict_set(x[new], alpha=[0.05, 0.1, 0.2]):
        print(f"  alpha {sets.alpha:<4} mean size {sets.sizes.mean():.2f}, covered {sets.coverage(truth):.3f}, "
              f"proven {sets.level:.3f}")  # fmt: skip


def regress(rng: np.random.Generator) -> None:
    """Intervals for the progress of diabetes after a year, with 80 % coverage."""
    x, y = load_diabetes(return_X_y=True)
    train, known, new = np.split(rng.permutation(len(y)), [200, 320])
    forest = RandomForestRegressor(random_state=0).fit(x[train], y[train])
    # Intervals are wider where errors are larger: a second forest predicts the size of the out-of-bag error.
    honest = RandomForestRegressor(oob_score=True, random_state=0).fit(x[train], y[train]).oob_prediction_
    scale = RandomForestRegressor(min_samples_leaf=10, random_state=0).fit(x[train], np.abs(y[train] - honest))
    print("\ndiabetes:")
    for name, settings in {"one width": {}, "width by difficulty": {"scale": scale}}.items():
        intervals = caveat.wrap(forest, alpha=0.2, **settings).calibrate(x[known], y[known]).predict_interval(x[new])
        narrow, wide = np.quantile(intervals.widths, [0.1, 0.9])
        print(f"  {name:20} covered {intervals.coverage(y[new]):.3f}, widths from {narrow:.0f} to {wide:.0f}")
    rows = np.concatenate([train, known])
    for name, cv in {"CV+": 10, "jackknife+": "jackknife"}.items():
        intervals = caveat.wrap(Ridge(0.1), cv=cv, alpha=0.2).fit(x[rows], y[rows]).predict_interval(x[new])
        width, share = intervals.widths.mean(), intervals.coverage(y[new])
        print(f"  {name + ', ridge':20} covered {share:.3f}, mean width {width:.0f}, proven {intervals.level:.3f}")


def notice(rng: np.random.Generator) -> None:
    """OOD scores of a linear model: its scaled inputs are the features, its coefficients the last layer."""
    wine = load_wine()
    train, known, new = np.split(rng.permutation(len(wine.target)), [80, 140])
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(wine.data[train], wine.target[train])

    def outputs_of(x: np.ndarray, y: np.ndarray | None = None) -> Outputs:
        last = pipeline[-1]
        head = caveat.Head(last.coef_, last.intercept_)
        return Outputs(features=pipeline[0].transform(x), labels=y, head=head)

    shuffled = np.column_stack(
        [rng.permutation(column) for column in wine.data[new].T]
    )  # no wine has such a combination
    calibration = outputs_of(wine.data[known])
    print("\nwine, values shuffled between wines (p-value at most 0.1 is flagged):")
    for name in ("msp", "energy", "mahalanobis", "knn"):
        settings = {"k": 5} if name == "knn" else {}
        score = scores.make(name, **settings).fit(outputs_of(wine.data[train], wine.target[train]))
        flagged = [
            np.mean(conformal.p_values(calibration=score.score(calibration), test=score.score(outputs_of(x))) <= 0.1)
            for x in (wine.data[new], shuffled)
        ]
        print(f"  {name:12} flags {flagged[0]:6.1%} of the wines, {flagged[1]:6.1%} of the impossible ones")


def main() -> None:
    rng = np.random.default_rng(0)
    classify(rng)
    regress(rng)
    notice(rng)


if __name__ == "__main__":
    main()
