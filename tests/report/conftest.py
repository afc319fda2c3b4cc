"""Evaluations to report on: small, real, seeded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from caveat import Head, Outputs, report
from caveat.study import Evaluation, evaluate

CLASSES, WIDTH = 4, 6


def outputs(seed: int, n: int, *, shift: float = 0.0, labelled: bool = True) -> Outputs:
    """A noisy linear model on clusters; ``shift`` moves the features away from where it was trained."""
    rng = np.random.default_rng(seed)
    centres = 2.2 * np.eye(CLASSES, WIDTH)
    labels = rng.integers(CLASSES, size=n)
    features = centres[labels] + rng.normal(size=(n, WIDTH))
    features[:, -2:] += shift
    head = Head(centres * 1.5 + 0.3 * np.ones((CLASSES, WIDTH)), np.zeros(CLASSES))
    return Outputs(features=features, head=head, labels=labels if labelled else None)


def small(
    outliers: dict[str, float], *, n: int = 400, labelled: bool = True, train: bool = True, **options
) -> Evaluation:
    return evaluate(
        train=outputs(1, 2 * n) if train else None,
        inlier=outputs(2, n, labelled=labelled),
        outliers={
            name: outputs(10 + i, n // 2, shift=shift, labelled=False)
            for i, (name, shift) in enumerate(outliers.items())
        },
        **({"names": ["msp", "energy", "mahalanobis", "knn"]} if train else {}) | options,
    )


def many_scores(evaluation: Evaluation, copies: int) -> Evaluation:
    """The same evaluation with every score under ``copies`` names, ranked in the same order."""

    def names(score: str) -> list[str]:
        return [f"{score}_{i:02d}" for i in range(copies)]

    return replace(
        evaluation,
        detections=tuple(replace(row, score=name) for row in evaluation.detections for name in names(row.score)),
        ranking=tuple(replace(line, score=name) for line in evaluation.ranking for name in names(line.score)),
        misclassifications=tuple(
            replace(row, score=name) for row in evaluation.misclassifications for name in names(row.score)
        ),
        strangeness={name: v for score, v in evaluation.strangeness.items() for name in names(score)},
    )


@pytest.fixture(scope="session")
def run():
    """Evaluates outlier sets given as name -> shift."""
    return small


@pytest.fixture(scope="session")
def evaluation() -> Evaluation:
    return small({"near": 1.0, "far": 2.5}, title="Four clusters")


@pytest.fixture(scope="session")
def unlabelled() -> Evaluation:
    return small({"near": 1.0}, labelled=False, train=False)


@pytest.fixture(scope="session")
def crowd() -> Evaluation:
    """Forty scores, twelve outlier sets."""
    sets = {f"outlier_set_number_{i}": 0.25 * i for i in range(12)}
    return many_scores(small(sets, n=200, title="A crowd"), 10)


@pytest.fixture(scope="session")
def crowd_source(crowd) -> str:
    return report.render_html(crowd)
