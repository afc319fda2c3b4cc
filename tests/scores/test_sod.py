from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, NotFittedError, Outputs
from caveat.scores import OutlierDetector, detector
from caveat.scores.sod import SOD


def shared_neighbors(rows, k):
    distance = np.sqrt(((rows[:, None] - rows) ** 2).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    near = [set(line) for line in np.argsort(distance, axis=1, kind="stable")[:, :k]]
    return distance, np.array([[len(a & b) for b in near] for a in near])


def literal(rows, k, size, alpha=0.8):
    """The formula, one row at a time, with every row as a candidate for the reference set."""
    distance, shared = shared_neighbors(rows, k)
    n, width = rows.shape
    scores = np.zeros(n)
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: (-shared[i, j], distance[i, j], j))
        reference = rows[others[:size]]
        mean, variance = reference.mean(axis=0), reference.var(axis=0)
        narrow = [j for j in range(width) if variance[j] < alpha * variance.sum() / width]
        if narrow:
            scores[i] = np.sqrt(sum((rows[i, j] - mean[j]) ** 2 for j in narrow) / len(narrow))
    return scores


def test_by_hand():
    # k = 2: the first three rows are each other's neighbors, the neighbors of row 3 are 2 and 1. It shares both with
    # row 0 and one each with 1 and 2, of which 2 is nearer: the reference set of two is {0, 2}. Their second column is
    # constant (0), the first is not, so only the second counts, and row 3 is 5 away from it.
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [2.1, 0.0], [3.3, 5.0]])
    assert SOD(n_neighbors=2, ref_set=2).fit(rows).decision_function(rows)[3] == pytest.approx(5.0)


@pytest.mark.parametrize(("n", "width", "k", "size"), [(60, 3, 8, 4), (40, 70, 20, 10), (30, 2, 5, 5), (22, 4, 20, 1)])
def test_against_a_loop_that_reads_like_the_paper(n, width, k, size):
    rows = np.random.default_rng(n).normal(size=(n, width))
    model = SOD(n_neighbors=k, ref_set=size).fit(rows)
    np.testing.assert_allclose(model.decision_function(rows), literal(rows, k, size), rtol=1e-10, atol=1e-14)


def test_rows_that_share_too_few_neighbors_take_their_nearest():
    # Far pairs: the neighbor of each is its mate, no two rows share it.
    rows = np.array([[0.0], [1.0], [10.0], [11.0], [100.0], [101.0]])
    rows = np.hstack([rows, np.arange(6.0)[:, None] % 2])
    model = SOD(n_neighbors=1, ref_set=1).fit(rows)
    np.testing.assert_array_equal(model.decision_function(rows), 0.0)  # one row has no variance: no column is narrow
    np.testing.assert_allclose(
        SOD(n_neighbors=3, ref_set=3).fit(rows).decision_function(rows), literal(rows, 3, 3), rtol=1e-12
    )


@pytest.mark.slow  # PyOD compiles first
@pytest.mark.parametrize(("n", "width"), [(300, 3), (150, 40)])
def test_scores_are_those_of_pyod_where_the_reference_set_is_determined(n, width):
    sod = pytest.importorskip("pyod.models.sod").SOD
    rows = np.random.default_rng(width).normal(size=(n, width)) * np.random.default_rng(0).choice([1.0, 4.0], (n, 1))
    _, shared = shared_neighbors(rows, 20)
    np.fill_diagonal(shared, -1)
    ordered = -np.sort(-shared, axis=1)
    clear = ordered[:, 9] > ordered[:, 10]  # the tenth shares more than the eleventh
    assert clear.mean() > 0.1
    own, theirs = SOD().fit(rows).decision_function(rows), sod().fit(rows).decision_function(rows)
    np.testing.assert_allclose(own[clear], theirs[clear], rtol=1e-10)


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    rows, order = rng.normal(size=(120, 5)), rng.permutation(120)
    model = SOD().fit(rows)
    np.testing.assert_allclose(model.decision_function(rows[order]), model.decision_function(rows)[order], rtol=1e-10)


def test_blocks_do_not_matter(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(90, 6))
    whole = SOD().fit(rows).decision_function(rows)
    monkeypatch.setattr("caveat.scores.sod._BLOCK", 7)
    np.testing.assert_array_equal(SOD().fit(rows).decision_function(rows), whole)


def test_copies_score_zero():
    np.testing.assert_array_equal(
        SOD(n_neighbors=3, ref_set=2).fit(np.ones((9, 2))).decision_function(np.ones((9, 2))), 0
    )


def test_it_is_the_detector_of_that_name():
    train = Outputs(features=np.random.default_rng(0).normal(size=(40, 2)))
    score = detector("sod", n_neighbors=5, ref_set=3).fit(train)
    assert score.whole_batch
    own = OutlierDetector(SOD(n_neighbors=5, ref_set=3))
    assert own.whole_batch
    np.testing.assert_array_equal(score.score(train), own.fit(train).score(train))


def test_messages():
    with pytest.raises(InputError, match="ref_set must be .* at most 5, got 6"):
        SOD(n_neighbors=5, ref_set=6)
    with pytest.raises(InputError, match="alpha must be above 0 and at most 1, got 2"):
        SOD(alpha=2)
    with pytest.raises(NotFittedError, match="SOD has not seen training data"):
        SOD().decision_function(np.eye(3))
    with pytest.raises(InputError, match="3 columns as in training, got 2"):
        SOD().fit(np.eye(3)).decision_function([[1.0, 2.0]])
