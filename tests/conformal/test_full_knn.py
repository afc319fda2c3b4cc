"""Full conformal nearest neighbors against refitting the whole bag for every test object and label."""

import math
from collections import defaultdict

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import kstest

from caveat.conformal import Euclidean, FullKNN
from caveat.errors import InputError, NotFittedError


def conformity(gaps, labels, measure, k):
    """Conformity of every example of a bag, from the definitions, one example at a time."""
    found = []
    for i in range(labels.size):
        others = [j for j in range(labels.size) if j != i]
        if measure == "ratio":
            same = sorted(gaps[i, j] for j in others if labels[j] == labels[i])[:k]
            other = sorted(gaps[i, j] for j in others if labels[j] != labels[i])[:k]
            above, below = sum(other), sum(same)
            found.append(1.0 if above == below == 0 else math.inf if below == 0 else above / below)
            continue
        near = sorted(others, key=lambda j: (gaps[i, j], labels[j] != labels[i], labels[j]))[:k]
        counts = np.bincount(labels[near], minlength=labels.max() + 1)
        own = counts[labels[i]]
        found.append(own if measure == "cp" else counts.max() if own == counts.max() else -counts.max())
    return np.array(found)


def refit(x, y, test, *, measure, k, tau, by_label=False):
    classes = y.max() + 1
    p = np.empty((len(test), classes))
    for t, new in enumerate(test):
        for c in range(classes):
            labels = np.append(y, c)
            gaps = Euclidean().distances(*[Euclidean().prepare(np.vstack([x, new]))] * 2)
            alpha = conformity(gaps, labels, measure, k)
            counted = (labels == c) if by_label else np.ones(labels.size, bool)
            level = np.isclose(alpha, alpha[-1], rtol=0, atol=1e-9) & counted  # infinite ones are equal
            below = (alpha < alpha[-1]) & ~level & counted
            p[t, c] = (below.sum() + tau[t] * level.sum()) / counted.sum()
    return p


@pytest.mark.parametrize("by", [None, "label"])
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("measure", ["ratio", "cp", "sp"])
def test_p_values_are_those_of_refitting_the_bag(measure, k, by):
    rng = np.random.default_rng(k)
    y = np.repeat([0, 1, 2], [14, 12, 10])
    x = rng.normal(size=(36, 2)) + np.array([[0, 0], [1.5, 0], [0, 1.5]])[y]
    test = rng.normal(size=(8, 2)) + 0.5
    found = FullKNN(measure, k=k).fit(x, y).p_values(test, np.random.default_rng(1), by=by)
    expected = refit(x, y, test, measure=measure, k=k, tau=np.random.default_rng(1).random(8), by_label=by == "label")
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("measure", "k"), [("ratio", 1), ("cp", 1), ("cp", 3), ("cp", 4), ("sp", 1), ("sp", 3), ("sp", 4)]
)
def test_tied_distances_do_not_matter(measure, k):
    # Objects on a small grid: most distances tie, and some objects coincide.
    rng = np.random.default_rng(7)
    y = np.repeat([0, 1, 2], 9)
    x, test = rng.integers(0, 4, size=(27, 2)).astype(float), rng.integers(0, 4, size=(6, 2)).astype(float)
    found = FullKNN(measure, k=k).fit(x, y).p_values(test)
    np.testing.assert_allclose(found, refit(x, y, test, measure=measure, k=k, tau=np.ones(6)), atol=1e-12)


def test_coinciding_objects_have_a_ratio():
    x, y = np.array([[0.0], [0.0], [0.0], [1.0], [1.0], [0.0]]), np.array([0, 0, 0, 1, 1, 1])
    found = FullKNN("ratio", k=1).fit(x, y).p_values(np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(found, refit(x, y, np.array([[0.0], [1.0]]), measure="ratio", k=1, tau=np.ones(2)))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("measure", ["ratio", "cp", "sp"])
def test_smoothed_p_values_of_the_true_label_are_uniform(measure):
    rng, found = np.random.default_rng(0), []
    for _ in range(400):
        y = np.concatenate([[0] * 6, [1] * 6, rng.integers(0, 2, 19)])
        x = rng.normal(size=(31, 1)) + y[:, None]
        order = rng.permutation(31)
        x, y = x[order], y[order]
        if min(np.bincount(y[:-1], minlength=2)) <= 3:
            continue
        p = FullKNN(measure, k=3).fit(x[:-1], y[:-1]).p_values(x[-1:], rng)
        found.append(p[0, y[-1]])
    assert kstest(found, "uniform").pvalue > 1e-3


def test_a_path_is_the_same_as_one_by_one():
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], 20)
    x, test = rng.normal(size=(40, 3)) + y[:, None], rng.normal(size=(5, 3))
    whole = FullKNN().fit(x, y, most=6)
    found = list(whole.path(test, iter([1, 4, 6]), rng=np.random.default_rng(3)))
    assert len(found) == 9  # all three of each measure, though an iterator can be read only once
    for measure, k, p in found:
        alone = FullKNN(measure, k=k).fit(x, y).p_values(test, np.random.default_rng(3))
        np.testing.assert_allclose(p, alone, atol=1e-12)


def test_sets_cover():
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 1200)
    x = rng.normal(size=(1200, 2)) + 2 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    sets = FullKNN("ratio", k=3).fit(x[:800], y[:800]).predict(x[800:], alpha=0.2, rng=rng)
    assert abs(sets.coverage(y[800:]) - 0.8) < 4 * math.sqrt(0.16 / 400 + 0.16 / 800)
    assert sets.sizes.mean() < 2


class Lopsided:
    """A metric that is not symmetric: what lies above counts double."""

    def prepare(self, x):
        return (x.astype(float),)

    def distances(self, a, b):
        gap = b[0][None] - a[0][:, None]
        return np.sqrt((np.where(gap > 0, 2 * gap, gap) ** 2).sum(axis=2))


METRICS = {"euclidean": "euclidean", "lopsided": Lopsided()}
# Objects apart; most distances tie and some objects coincide; the same in units in which floats are not exact.
OBJECTS = {
    "apart": lambda x: x,
    "tied": np.round,
    "tied, not exact": lambda x: np.round(x) / 7 + 3,
}


@pytest.mark.parametrize("by", [None, "label"])
@pytest.mark.parametrize("objects", OBJECTS)
@pytest.mark.parametrize("metric", METRICS)
def test_each_example_of_a_bag_in_turn_has_no_too_small_p_value(metric, objects, by):
    """Leave one out: of N examples no more than r have a p-value of r / N or less, for every r (or within a label)."""
    rng, y = np.random.default_rng(len(objects)), np.repeat([0, 1, 2], [7, 8, 7])
    x = OBJECTS[objects](0.7 * rng.normal(size=(y.size, 9)) + 0.5 * y[:, None])
    ranks = defaultdict(lambda: np.empty(y.size))
    for i in range(y.size):
        rest = np.arange(y.size) != i
        fitted = FullKNN(metric=METRICS[metric]).fit(x[rest], y[rest], most=5)
        of = np.count_nonzero(y == y[i]) if by == "label" else y.size
        for measure, k, p in fitted.path(x[[i]], [1, 3, 5], by=by):
            ranks[measure, k][i] = round(p[0, y[i]] * of)
    assert len(ranks) == 9
    for (measure, _), found in ranks.items():
        for part in [found[y == c] for c in range(3)] if by == "label" else [found]:
            assert all(np.count_nonzero(part <= rank) <= rank for rank in range(1, part.size + 1))
            if objects == "apart" and measure == "ratio":  # without ties every rank is taken once
                assert sorted(part) == list(range(1, part.size + 1))


def test_a_distance_depends_on_its_two_objects_only():
    space = Euclidean()
    x = np.random.default_rng(0).normal(size=(230, 49))
    state = space.prepare(x)
    whole = space.distances(state, state)
    for rows, columns in (
        (slice(0, 1), slice(0, 230)),
        (slice(17, 150), slice(5, 6)),
        (slice(96, 113), slice(40, 229)),
    ):
        part = space.distances(space.prepare(x[rows]), space.prepare(x[columns]))
        np.testing.assert_array_equal(part, whole[rows, columns])


@pytest.mark.parametrize("offset", [0, 100, 1e6, 1e9])
def test_euclidean_is_that_of_scipy_far_from_the_origin_too(offset):
    rng, space = np.random.default_rng(0), Euclidean()
    a, b = rng.normal(size=(20, 3)) + offset, rng.normal(size=(25, 3)) + offset
    b[0] += 5 * offset  # one far away, so that no common center would help
    np.testing.assert_allclose(space.distances(space.prepare(a), space.prepare(b)), cdist(a, b), rtol=1e-9)
    assert np.diag(space.distances(space.prepare(a), space.prepare(a))).max() == 0


def test_sets_read_a_level_as_it_was_meant():
    # p = 1/10 must not exceed 1 - 0.9, which is 0.09999999999999998.
    y = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1])
    fitted = FullKNN("ratio", k=1).fit(np.arange(9.0)[:, None] + 100 * y[:, None], y)
    new = np.array([[1e6]])
    assert (fitted.p_values(new) == 0.1).any()
    np.testing.assert_array_equal(fitted.predict(new, 1 - 0.9).member, fitted.predict(new, 0.1).member)


def test_a_metric_of_your_own():
    class Manhattan:
        def prepare(self, x):
            return (x,)

        def distances(self, a, b):
            return cdist(a[0], b[0], "cityblock")

    rng = np.random.default_rng(5)
    y = np.repeat([0, 1], 10)
    x = rng.normal(size=(20, 2)) + y[:, None]
    assert FullKNN("cp", k=3, metric=Manhattan()).fit(x, y).p_values(x[:2] + 0.1).shape == (2, 2)


def test_clear_errors():
    x, y = np.arange(12.0).reshape(6, 2), [0, 0, 0, 1, 1, 1]
    with pytest.raises(InputError, match="every class must have more than k = 3 objects, but class 0 has 3"):
        FullKNN(k=3).fit(x, y)
    with pytest.raises(InputError, match="unknown conformity measure 'knn'"):
        FullKNN("knn")
    with pytest.raises(InputError, match="unknown metric 'cosine'"):
        FullKNN(metric="cosine")
    with pytest.raises(NotFittedError, match="Call fit"):
        FullKNN().p_values(x)
    fitted = FullKNN(k=2).fit(x, y)
    with pytest.raises(InputError, match="x must have 2 columns as in training, got 3"):
        fitted.p_values(np.ones((1, 3)))
    with pytest.raises(InputError, match="k must be .* at most 2, got 5"):
        list(fitted.path(x, [5]))
    with pytest.raises(InputError, match="unknown value of by"):
        fitted.p_values(x, by="class")
    with pytest.raises(InputError, match="at least two classes"):
        FullKNN().fit(x, [0] * 6)
    with pytest.raises(InputError, match="x and y must have the same length, got 6 and 2"):
        FullKNN().fit(x, [0, 1])
