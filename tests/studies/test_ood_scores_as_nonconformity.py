"""Expected shape of the study of OOD scores as nonconformity scores."""

import csv

import numpy as np
import pytest


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
