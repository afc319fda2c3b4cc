"""Expected shape of the study of OOD scores as nonconformity scores."""

import csv
import itertools

import numpy as np
import pytest
from scipy.spatial import cKDTree


def test_the_committed_table(studies):
    with (studies / "ood_scores_as_nonconformity" / "results.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 5 * 9
    for row in rows:
        # 10 splits of 2000 + 8000: standard error of coverage about sqrt(a (1 - a) / 2000)
        alpha = float(row["alpha"])
        assert abs(float(row["coverage"]) - (1 - alpha)) < 4 * np.sqrt(alpha * (1 - alpha) / 2000)
    size = {(r["score"], r["method"], r["alpha"]): float(r["size"]) for r in rows}
    for alpha in ("0.005", "0.01"):
        assert size["Mahalanobis", "LAC", alpha] < size["CP (softmax)", "LAC", alpha]
        assert size["Mahalanobis", "RAPS", alpha] < size["CP (softmax)", "RAPS", alpha]


@pytest.mark.slow
def test_three_splits(study, data):
    module = study("ood_scores_as_nonconformity")
    train, test = module.load(data)
    sources = module.sources()
    sizes = {}
    for name in ("CP (softmax)", "Mahalanobis", "KNN", "ReAct"):
        found = module.evaluate(sources[name], train, test, splits=3)
        sizes[name] = np.mean([r["size"] for r in found if r["method"] == "LAC" and r["alpha"] == 0.01])
        cover = np.mean([r["coverage"] for r in found if r["alpha"] == 0.05])
        assert abs(cover - 0.95) < 4 * np.sqrt(0.05 * 0.95 / 2000)
    assert sizes["Mahalanobis"] < sizes["CP (softmax)"] * 1.1
    assert max(sizes.values()) < 9


class RawDistances:
    """Distance to the nearest training feature that was predicted as the class, features not scaled (appendix C.3)."""

    def fit(self, train):
        self.banks = [cKDTree(train.features[train.predictions == label]) for label in range(10)]
        return self

    def class_scores(self, outputs):
        return np.column_stack([bank.query(outputs.features)[0] for bank in self.banks])


@pytest.mark.slow
def test_raw_distances_make_the_sets_of_knn_smaller_and_do_not_explain_the_difference(study, data):
    module = study("ood_scores_as_nonconformity")
    train, test = module.load(data)

    def sizes(source):
        found = module.evaluate(source, train, test, splits=10)
        return {key: np.mean([r["size"] for r in found if (r["method"], r["alpha"]) == key])
                for key in itertools.product(module.METHODS, module.ALPHAS)}  # fmt: skip

    softmax, scaled, raw = (sizes(source) for source in (None, module.sources()["KNN"], RawDistances()))
    assert all(raw[key] < scaled[key] for key in raw)
    known = study("ood_scores_as_nonconformity", "summary").published()

    def agreeing(knn):
        return sum((knn[key] < softmax[key]) == (known["KNN", *key] < known["CP (softmax)", *key]) for key in softmax)

    assert (agreeing(scaled), agreeing(raw)) == (3, 3)
    for alpha in (0.01, 0.05):  # where KNN is better in the paper
        assert known["KNN", "LAC", alpha] < known["CP (softmax)", "LAC", alpha]
        assert softmax["LAC", alpha] < raw["LAC", alpha]
