from __future__ import annotations

import pytest

from caveat.demo.network import demo_outputs
from caveat.evaluation import evaluate
from caveat.evaluation.records import SetFacts


@pytest.fixture(scope="module")
def said():
    return demo_outputs()


def test_sizes_and_fields(said):
    assert (said.train.n, said.calibration.n, said.inlier.n) == (700, 260, 260)
    assert list(said.outliers) == [
        "near: digits 8 and 9", "mid: shifted", "mid: rotated", "mid: occluded", "far: inverted", "far: noise",
    ]  # fmt: skip
    assert all(outputs.labels is None for outputs in said.outliers.values())
    assert said.inlier.has("head")


def test_it_is_deterministic(said):
    again = demo_outputs()
    assert (again.inlier.logits == said.inlier.logits).all()
    assert (demo_outputs(seed=1).inlier.labels != said.inlier.labels).any()


def test_its_numbers(said):
    # Tolerances allow for the rounding of another machine's linear algebra, not for another result.
    result = evaluate(
        train=said.train, inlier=said.inlier, calibration=said.calibration, outliers=said.outliers,
        scores=["msp", "energy", "mahalanobis", "knn"], alpha=0.01,
    )  # fmt: skip
    assert result.ranking.methods == ("mahalanobis", "knn", "msp", "energy")
    expected = {"mahalanobis": 0.975, "knn": 0.894, "msp": 0.780, "energy": 0.673}
    for name in result.ranking.methods:
        areas = [result.detection(name, outlier).auroc.value for outlier in said.outliers]
        assert sum(areas) / len(areas) == pytest.approx(expected[name], abs=0.02)
    assert result.accuracy.value == pytest.approx(0.985, abs=0.012)
    assert result.detection("mahalanobis", "far: noise").auroc.value > 0.99
    sets = next(found for found in result.of(SetFacts) if not found.block.outlier)
    assert sets.coverage.upper >= sets.promised
    assert 1 <= sets.mean_size < 1.4
