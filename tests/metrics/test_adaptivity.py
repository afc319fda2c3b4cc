"""Adaptivity metrics: by hand, against literal references, and which differences they detect."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import linregress

from caveat import Outputs, metrics
from caveat.conformal import SplitSets
from caveat.conformal._bins import equal_mass
from caveat.errors import CaveatWarning, InputError
from caveat.results import PredictionSets


def test_t_cv_by_hand():
    # bins by ease: {.1, .2} covered 1 of 2, {.8, .9} covered 2 of 2; alpha .2: |.5 - .8| = .3, |1 - .8| = .2
    assert metrics.t_cv(covered=[1, 0, 1, 1], ease=[0.1, 0.2, 0.9, 0.8], alpha=0.2, bins=2) == pytest.approx(0.3)


def test_bins_are_those_of_equation_2():
    # N = 7, B = 3: floor(b N / B) = 0, 2, 4, 7, so the bins hold 2, 2 and 3
    assert np.bincount(equal_mass(np.arange(7.0), 3)).tolist() == [2, 2, 3]
    assert equal_mass(np.arange(7.0)[::-1], 3).tolist() == [2, 2, 2, 1, 1, 0, 0]
    both = equal_mass(np.array([[1.0, 0.0], [0.0, 1.0]]), 2)  # along the last axis
    assert both.tolist() == [[1, 0], [0, 1]]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(8, 60), bins=st.integers(3, 8))
def test_t_ss_is_the_signed_r_squared_of_a_regression(seed, n, bins):
    rng = np.random.default_rng(seed)
    ease, ranks, sizes = rng.random(n), rng.integers(1, 9, n), rng.integers(0, 9, n)
    order = np.argsort(ease)
    bounds = [b * n // bins for b in range(bins + 1)]
    x = [ranks[order[a:b]].mean() for a, b in itertools.pairwise(bounds)]
    y = [sizes[order[a:b]].mean() for a, b in itertools.pairwise(bounds)]
    if np.ptp(x) < 1e-9 or np.ptp(y) < 1e-9:
        return
    line = linregress(x, y)
    found = metrics.t_ss(sizes=sizes, ranks=ranks, ease=ease, bins=bins)
    assert found == pytest.approx(np.sign(line.slope) * line.rvalue**2, abs=1e-9)


def test_t_ss_of_a_perfect_classifier_is_not_defined():
    with pytest.warns(CaveatWarning, match="T-SS is undefined: every bin has the same mean rank"):
        assert np.isnan(metrics.t_ss(sizes=[1, 2, 3, 4], ranks=[1, 1, 1, 1], ease=[1, 2, 3, 4], bins=2))
    assert metrics.t_ss(sizes=[2, 2, 2, 2], ranks=[1, 2, 3, 4], ease=[1, 2, 3, 4], bins=2) == 0


def test_strata_by_hand():
    # sizes 0 and 1 together: 2 of 3 covered; 2-3: 1 of 1; 4-10: 0 of 1
    sizes, covered = [0, 1, 1, 3, 4], [0, 1, 1, 1, 0]
    assert metrics.sscv(covered=covered, sizes=sizes, alpha=0.1) == pytest.approx(0.9)
    assert metrics.sscv(covered=covered[:4], sizes=sizes[:4], alpha=0.1) == pytest.approx(abs(2 / 3 - 0.9))
    # one by one, empty sets left out: size 1 and size 3 are covered, size 4 is not
    assert metrics.escv(covered=covered[:4], sizes=sizes[:4], alpha=0.1) == pytest.approx(0.1)
    assert metrics.escv(covered=covered, sizes=sizes, alpha=0.1) == pytest.approx(0.9)
    with pytest.warns(CaveatWarning, match="ESCV is undefined: every set is empty"):
        assert np.isnan(metrics.escv(covered=[0, 0], sizes=[0, 0], alpha=0.1))
    assert metrics.sscv(covered=[1, 1], sizes=[101, 5000], alpha=0.1) == pytest.approx(0.1)
    assert metrics.rank_cv(covered=[1, 1, 0, 0, 1], ranks=[1, 1, 2, 3, 3], alpha=0.1) == pytest.approx(0.9 - 1 / 3)
    with pytest.raises(InputError, match="edges must rise strictly"):
        metrics.sscv(covered=covered, sizes=sizes, alpha=0.1, edges=(0, 3, 2))
    with pytest.raises(InputError, match="ranks must be at least the first edge 1, got 0 at row 0"):
        metrics.rank_cv(covered=[1], ranks=[0], alpha=0.1)


def test_deficit_and_excess_by_hand():
    probs = [[0.4, 0.3, 0.2, 0.1]] * 4
    member = [[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]]
    labels = [2, 0, 1, 1]
    # true label third with one in: add 2. First of three: spare 2. Second with none in: add 2. In, one below: spare 1.
    short, over = metrics.steps_short_and_over(member=member, probs=probs, labels=labels)
    assert short.tolist() == [2, 0, 2, 0]
    assert over.tolist() == [0, 2, 0, 1]
    assert metrics.deficit(member=member, probs=probs, labels=labels) == 1.0
    assert metrics.excess(member=member, probs=probs, labels=labels) == 0.75


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_for_sets_that_follow_the_order_they_are_rank_minus_size(seed):
    rng = np.random.default_rng(seed)
    probs, labels = rng.dirichlet(np.ones(7), size=20), rng.integers(0, 7, 20)
    sizes = rng.integers(0, 8, 20)
    place = np.argsort(np.argsort(-probs, axis=1), axis=1)
    member = place < sizes[:, None]
    ranks = metrics.true_ranks(probs=probs, labels=labels)
    short, over = metrics.steps_short_and_over(member=member, probs=probs, labels=labels)
    np.testing.assert_array_equal(short, np.maximum(ranks - sizes, 0))
    np.testing.assert_array_equal(over, np.maximum(sizes - ranks, 0))


def test_true_ranks_break_ties_by_label():
    assert metrics.true_ranks(probs=[[0.25] * 4] * 4, labels=[0, 1, 2, 3]).tolist() == [1, 2, 3, 4]


def test_adaptive_sets_look_adaptive():
    # Difficulty is known: the sharpness of the row. APS follows it; sets of one size do not.
    rng = np.random.default_rng(0)
    n = 8000
    sharp = rng.uniform(0.3, 6, n)
    logits = sharp[:, None] * rng.normal(size=(n, 10))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.minimum((probs.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), 9)
    outputs = Outputs(logits=logits, labels=labels)
    half = n // 2
    found = {}
    for name in ("aps", "topk"):
        sets = SplitSets(name, alpha=0.1).calibrate(outputs[:half], rng=np.random.default_rng(1))
        found[name] = metrics.adaptivity(
            sets.predict(outputs[half:], rng=np.random.default_rng(2)), outputs[half:], ease=sharp[half:], bins=20
        )
    assert found["aps"]["T-SS"] > 0.85
    assert found["topk"]["T-SS"] == 0
    assert found["aps"]["T-CV"] < 0.08 < found["topk"]["T-CV"]
    assert found["aps"]["Rank-SS"] > 0.5
    assert set(found["aps"]) == {
        "coverage", "size", "deficit", "excess", "SSCV", "ESCV", "Rank-CV", "Rank-SS", "T-CV", "T-SS"
    }  # fmt: skip


def test_clear_errors():
    with pytest.raises(InputError, match="covered and ease must have the same length, got 2 and 3"):
        metrics.t_cv(covered=[1, 0], ease=[1, 2, 3], alpha=0.1, bins=2)
    with pytest.raises(InputError, match=r"bins must be .* at most 2, got 50"):
        metrics.t_cv(covered=[1, 0], ease=[1, 2], alpha=0.1)
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        metrics.escv(covered=[1, 0], sizes=[1, 2], alpha=1)
    with pytest.raises(InputError, match="member must hold booleans"):  # probabilities are not memberships
        metrics.deficit(member=[[0.1, 0.9]], probs=[[0.1, 0.9]], labels=[0])
    with pytest.raises(InputError, match="adaptivity needs outputs.labels"):
        metrics.adaptivity(PredictionSets(np.ones((2, 2), bool), 0.1, 0.9), Outputs(logits=np.zeros((2, 2))))
    with pytest.warns(CaveatWarning, match="Rank-SS is undefined"):
        assert np.isnan(metrics.rank_ss(sizes=[1, 2], ranks=[1, 1]))
