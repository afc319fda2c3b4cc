from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, NotFittedError, Outputs
from caveat.scores import OutlierDetector, detector
from caveat.scores.cof import COF


def literal(rows, k):
    """The formula, one row and one link at a time."""
    n = rows.shape[0]
    distance = np.array([[np.linalg.norm(a - b) for b in rows] for a in rows])
    chain, neighbors = np.zeros(n), []
    for i in range(n):
        order = [i, *sorted((j for j in range(n) if j != i), key=lambda j: (distance[i, j], j))]
        neighbors.append(order[1 : k + 1])
        for j in range(1, k + 1):
            link = min(distance[order[j], order[before]] for before in range(j))
            chain[i] += 2 * (k + 1 - j) / (k * (k + 1)) * link
    return np.array([k * chain[i] / sum(chain[j] for j in neighbors[i]) for i in range(n)])


def score(rows, k):
    return COF(n_neighbors=k).fit(rows).decision_function(rows)


def test_by_hand():
    # k = 2, weights 2/3 and 1/3. Chains of 0, 1, 2, 3: both links 1, so c = 1; of 9: 6 to 3, then 1 from 3 to 2,
    # c = 4 + 1/3. Its neighbors have c = 1, so its factor is 13/3; the others have neighbors with c = 1: factor 1.
    np.testing.assert_allclose(score(np.array([[0.0], [1.0], [2.0], [3.0], [9.0]]), 2), [1, 1, 1, 1, 13 / 3])


@pytest.mark.parametrize(("n", "width", "k"), [(40, 2, 5), (30, 60, 20), (25, 3, 1), (21, 4, 20)])
def test_against_a_loop_that_reads_like_the_paper(n, width, k):
    rows = np.random.default_rng(n).normal(size=(n, width))
    np.testing.assert_allclose(score(rows, k), literal(rows, k), rtol=1e-10)


@pytest.mark.parametrize(("n", "width"), [(300, 3), (150, 40), (60, 100)])
def test_scores_are_those_of_pyod(n, width):
    cof = pytest.importorskip("pyod.models.cof").COF
    rng = np.random.default_rng(width)
    train, test = rng.normal(size=(2, n, width)) * rng.choice([0.3, 1.0, 5.0], size=(2, n, 1))  # no equal distances
    expected = cof().fit(train).decision_function(test)
    np.testing.assert_allclose(COF().fit(train).decision_function(test), expected, rtol=1e-9)


def test_a_small_training_set_lowers_k_as_in_pyod():
    cof = pytest.importorskip("pyod.models.cof").COF
    rng = np.random.default_rng(3)
    train, test = rng.normal(size=(8, 3)), rng.normal(size=(50, 3))
    with pytest.warns(UserWarning, match="minus 1: 7"):
        expected = cof().fit(train).decision_function(test)
    np.testing.assert_allclose(COF().fit(train).decision_function(test), expected, rtol=1e-9)


def test_copies():
    heap = np.zeros((6, 2))
    np.testing.assert_array_equal(score(heap, 3), 0.0)  # no chain has any length
    values = score(np.vstack([heap, [[1.0, 0.0]]]), 3)  # its neighbors' chains have none
    assert values[-1] == np.finfo(np.float64).max
    np.testing.assert_array_equal(values[:-1], 0.0)


def test_scale_and_order_do_not_matter():
    rng = np.random.default_rng(0)
    rows, order = rng.normal(size=(80, 4)), rng.permutation(80)
    np.testing.assert_allclose(score(1e3 * rows + 7, 10), score(rows, 10), rtol=1e-9)
    np.testing.assert_allclose(score(rows[order], 10), score(rows, 10)[order], rtol=1e-12)


def test_pyods_own_objects_are_still_known_to_need_the_whole_batch():
    cof = pytest.importorskip("pyod.models.cof").COF
    assert OutlierDetector(cof()).whole_batch
    assert OutlierDetector(COF()).whole_batch
    train = Outputs(features=np.random.default_rng(0).normal(size=(40, 2)))
    np.testing.assert_allclose(detector("cof").fit(train).score(train), OutlierDetector(cof()).fit(train).score(train))


def test_messages():
    with pytest.raises(InputError, match="n_neighbors must be a whole number, at least 1, got 0"):
        COF(n_neighbors=0)
    with pytest.raises(InputError, match="at least 2 rows"):
        COF().fit([[1.0, 2.0]])
    with pytest.raises(NotFittedError, match="COF has not seen training data"):
        COF().decision_function(np.eye(3))
    with pytest.raises(InputError, match="3 columns as in training, got 2"):
        COF(n_neighbors=1).fit(np.eye(3)).decision_function([[1.0, 2.0]])
