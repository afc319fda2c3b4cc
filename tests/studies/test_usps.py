"""Expected shape of the USPS study: on a subsample of the data, and in the committed table."""

import csv

import numpy as np
import pytest


def curve(rows, metric, measure, criterion, least=10):
    return np.array(
        [r[criterion] for r in rows if r["metric"] == metric and r["measure"] == measure and r["K"] >= least]
    )


def check_shape(rows, least):
    for metric in ("euclidean", "tangent"):
        # KNN-CP is better under observed fuzziness, KNN-SP under unconfidence, small K aside.
        cp, sp = (curve(rows, metric, m, "OF", least) for m in ("cp", "sp"))
        assert cp.mean() < sp.mean(), metric
        cp, sp = (curve(rows, metric, m, "U", least) for m in ("cp", "sp"))
        assert sp.mean() < cp.mean(), metric
    for measure in ("ratio", "cp", "sp"):
        for criterion in ("U", "OF"):
            tangent, plain = (curve(rows, m, measure, criterion, least) for m in ("tangent", "euclidean"))
            assert tangent.mean() < plain.mean(), (measure, criterion)


def test_the_committed_table_has_the_shape_of_the_paper(studies):
    with (studies / "usps" / "results.csv").open(encoding="utf-8") as stream:
        lines = csv.DictReader(stream)
        rows = [{k: v if k in ("metric", "measure") else float(v) for k, v in line.items()} for line in lines]
    assert len(rows) == 2 * 3 * 50
    check_shape(rows, least=10)
    # The best of all is KNN-ratio with tangent distance at a small K.
    for criterion in ("U", "OF"):
        best = min(rows, key=lambda r: r[criterion])
        assert (best["metric"], best["measure"]) == ("tangent", "ratio")
        assert best["K"] <= 10


@pytest.mark.slow
def test_a_subsample_has_the_shape_of_the_paper(study, data):
    usps = study("usps")
    train, test, y_train, y_test = usps.load(data)
    rng = np.random.default_rng(0)
    some, few = rng.permutation(len(train))[:1500], rng.permutation(len(test))[:400]
    rows = []
    for metric in ("euclidean", "tangent"):
        rows += usps.evaluate(train[some], test[few], y_train[some], y_test[few], metric=metric, most=20)
    check_shape(rows, least=8)
