"""Expected shape of the USPS study: on a subsample of the data, and in the committed table."""

import csv

import numpy as np
import pytest

LEVELS = (0.01, 0.05, 0.1, 0.2)
TEXT = ("split", "metric", "measure")


def read(path):
    with path.open(encoding="utf-8") as stream:
        return [{k: v if k in TEXT else float(v) for k, v in line.items()} for line in csv.DictReader(stream)]


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


@pytest.mark.parametrize("split", ["original", "shuffled"])
def test_the_committed_table_has_the_shape_of_the_paper(studies, split):
    rows = [row for row in read(studies / "usps" / "results.csv") if row["split"] == split]
    assert len(rows) == 2 * 3 * 50
    check_shape(rows, least=10)
    # The best of all is KNN-ratio with tangent distance at a small K.
    for criterion in ("U", "OF"):
        best = min(rows, key=lambda r: r[criterion])
        assert (best["metric"], best["measure"]) == ("tangent", "ratio")
        assert best["K"] <= 10


def test_the_committed_error_rates_are_valid_on_random_splits_only(studies):
    one_split, many = read(studies / "usps" / "results.csv"), read(studies / "usps" / "repeated.csv")
    for level in LEVELS:
        spread = np.sqrt(level * (1 - level) * (1 / 2007 + 1 / 7291))
        rates = {s: np.array([r[f"error {level:g}"] for r in one_split if r["split"] == s])
                 for s in ("original", "shuffled")}  # fmt: skip
        assert abs(rates["shuffled"] - level).max() < 4 * spread
        assert rates["original"].min() > level  # too many errors, for every predictor
        assert rates["original"].max() > level + 4 * spread
        for row in many:
            assert abs(row[f"error {level:g}"] - level) < 4 * row[f"se of error {level:g}"]


def test_distances_are_looked_up(study):
    class Difference:
        def prepare(self, x):
            return (x[:, 0],)

        def distances(self, a, b):
            return abs(a[0][:, None] - b[0])

    usps = study("usps")
    images = np.random.default_rng(0).integers(0, 50, size=(1000, 1)).astype(float)  # more rows than one block
    lookup = usps.Lookup(images, Difference())
    rows, columns = lookup.prepare(np.array([[3.0], [999.0]])), lookup.prepare(np.array([[999.0], [4.0], [3.0]]))
    expected = abs(images[[3, 999]] - images[[999, 4, 3], 0])
    assert lookup.distances(rows, columns).tolist() == expected.tolist()


def test_a_shuffled_split_keeps_all_digits_and_sizes(study):
    usps = study("usps")
    train, test = np.arange(6.0)[:, None], np.arange(6.0, 9.0)[:, None]
    x, other, y, other_y = usps.shuffled(train, test, np.arange(6), np.arange(6, 9))
    assert (len(x), len(other)) == (6, 3)
    assert sorted([*x[:, 0], *other[:, 0]]) == list(range(9))
    assert [*x[:, 0], *other[:, 0]] == [*y, *other_y] != list(range(9))


def test_repeated_splits_of_one_class_law_err_as_often_as_the_level_says(study, monkeypatch):
    usps = study("usps")
    monkeypatch.setattr(usps, "SOME_TRAIN", 150)
    monkeypatch.setattr(usps, "SOME_TEST", 50)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    rows = usps.repeated(rng.normal(size=(400, 2)) + labels[:, None], labels, metric="euclidean")
    assert [(row["measure"], row["K"]) for row in rows] == [(m, k) for m in ("ratio", "cp", "sp") for k in usps.SOME_K]
    for row in rows:
        for level in LEVELS:
            exact = np.sqrt(level * (1 - level) * (1 / 50 + 1 / 150) / usps.REPEATS)
            assert abs(row[f"error {level:g}"] - level) < 4.5 * exact  # 36 rates
            assert row[f"se of error {level:g}"] < 2 * exact


def test_error_rates_by_hand(study):
    p = np.array([[0.02, 0.5], [0.3, 0.05], [0.3, 0.15], [0.9, 0.1]])
    # p of the true labels: .02, .05, .15, .9
    assert study("usps").errors(p, np.array([0, 1, 1, 0])) == {
        "error 0.01": 0, "error 0.05": 0.5, "error 0.1": 0.5, "error 0.2": 0.75
    }  # fmt: skip


def test_figure_1_shows_each_digit_in_its_column(study):
    labels = np.repeat(np.arange(10), 5)
    images = np.broadcast_to(labels[:, None, None], (50, 16, 16))
    sheet = study("usps", "figures").digit_sheet(images, labels, rows=3)
    assert sheet.shape == (48, 160)
    assert np.unique(sheet[:, 32:48]).tolist() == [pytest.approx(2 / 9)]


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
