from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from caveat import Head, InputError, Outputs
from caveat.scores import ASH

SHAPES = [(200, 12, 4), (40, 70, 4), (120, 9, 2), (400, 16, 100)]  # n, D, C: D < N, D > N, two and many classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)

VARIANTS = {"p": 60, "b": 90, "s": 65}


def shaped(h, variant, percentile):
    """Algorithms 1 to 3 of the paper on one row, as the mean over all choices of k where values tie."""
    k = max(1, h.size - round(h.size * percentile / 100))
    last = sorted(h)[-k]
    above, tied = np.flatnonzero(h > last), np.flatnonzero(h == last)
    chosen = np.zeros_like(h)
    ways = list(combinations(tied, k - above.size))
    for way in ways:
        chosen[above] += 1 / len(ways)
        chosen[list(way)] += 1 / len(ways)
    if variant == "b":
        return chosen * h.sum() / k
    new = chosen * h
    return new * np.exp(h.sum() / new.sum()) if variant == "s" else new


def test_by_hand():
    # k = 2 of 4. h = (3, 1, 0, 0): kept 3 and 1, all of the sum 4.
    # p: logits (3, 1); b: both 4 / 2 = 2; s: times e^(4/4): (3e, e)
    head = Head([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]])
    said = Outputs(features=[[3.0, 1.0, 0.0, 0.0]], head=head)
    expected = {"p": (3.0, 1.0), "b": (2.0, 2.0), "s": (3 * np.e, np.e)}
    for variant, (one, two) in expected.items():
        value = ASH(variant, percentile=50).score(said)
        assert value == pytest.approx([-np.log(np.exp(one) + np.exp(two))])


@shapes
@pytest.mark.parametrize("variant", VARIANTS)
def test_is_the_algorithm_of_the_paper_with_its_percentile(n, width, classes, variant, make_outputs):
    test = make_outputs(n=30, width=width, classes=classes, seed=2)
    new = np.stack([shaped(h, variant, VARIANTS[variant]) for h in test.features])
    expected = -np.logaddexp.reduce(test.head.logits(new), axis=1)
    np.testing.assert_allclose(ASH(variant).score(test), expected, rtol=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_of_many_zeros_share_the_places_that_are_left(variant):
    # One positive value of ten, k = 5: the nine zeros share four places.
    features = np.zeros((2, 10))
    features[0, 7], features[1, 2] = 2.0, 3.0
    head = Head(np.random.default_rng(0).normal(size=(3, 10)))
    new = np.stack([shaped(h, variant, 50) for h in features])
    expected = -np.logaddexp.reduce(head.logits(new), axis=1)
    np.testing.assert_allclose(ASH(variant, percentile=50).score(Outputs(features=features, head=head)), expected)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_order_of_columns_does_not_matter(variant, kind):
    rng = np.random.default_rng(0)
    features = (rng.integers(0, 4, size=(60, 12)) * (rng.random((60, 12)) < 0.3)).astype(kind)  # few fire, and tie
    weight = rng.normal(size=(3, 12)).astype(kind)
    order = rng.permutation(12)
    for percentile in (None, 50):
        one = ASH(variant, percentile=percentile).score(Outputs(features=features, head=Head(weight)))
        other = ASH(variant, percentile=percentile).score(
            Outputs(features=features[:, order], head=Head(weight[:, order]))
        )
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_never_in_place(variant):
    features = np.random.default_rng(0).random((20, 10)).astype(np.float32)
    before = features.copy()
    ASH(variant).score(Outputs(features=features, head=Head(np.ones((2, 10), dtype=np.float32))))
    np.testing.assert_array_equal(features, before)


@pytest.mark.parametrize("variant", VARIANTS)
def test_zero_rows_and_negative_features_stay_finite(variant):
    rng = np.random.default_rng(0)
    features = np.vstack([np.zeros((1, 8)), rng.normal(size=(50, 8)), -rng.random((5, 8))])
    values = ASH(variant).score(Outputs(features=features, head=Head(rng.normal(size=(3, 8)))))
    assert np.isfinite(values).all()


def test_messages():
    with pytest.raises(InputError, match="unknown variant of ash 'x'"):
        ASH("x")
    with pytest.raises(InputError, match="percentile must be strictly between 0 and 100, got 100"):
        ASH("s", percentile=100)
