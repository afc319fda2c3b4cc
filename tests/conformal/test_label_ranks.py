"""Rank-calibrated class-conditional sets: by hand, against the definition, and the promise where the published
algorithm breaks it."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import Outputs
from caveat.conformal import LabelRanks, SplitSets
from caveat.conformal.label_ranks import RankedScores
from caveat.errors import CaveatWarning, InputError


def slow_p(scores, ranks, score, rank, by_rank):
    """The definition with the test row among the others."""
    all_scores, all_ranks = np.append(scores, score), np.append(ranks, rank)
    limit = np.sort(all_ranks)[all_ranks.size - 1 - by_rank]
    strange = np.where(all_ranks <= limit, all_scores, np.inf)
    return np.mean(strange >= strange[-1])


def test_by_hand():
    # Nine rows and the test row, alpha .2: two misses, both may be made by the rank (share 1).
    # Ranks 1 1 1 1 2 2 3 5 8; eighth smallest of ten: 3 for a test rank up to 3, the rank itself up to 5, else out.
    known = RankedScores(
        np.arange(1.0, 10.0), np.array([1, 1, 1, 1, 2, 2, 3, 5, 8]), np.zeros(9, dtype=int), 10, 0.2, share=1.0
    )
    row = known.thresholds()[0]
    assert row[:3].tolist() == [math.inf] * 3  # ranks 5 and 8 are missed: nothing is left for the score
    assert row[3] == math.inf  # the test row at rank 4: the same two are beyond it
    assert row[4] == 8.0  # at rank 5 only rank 8 is beyond: the largest score among the others is the other miss
    assert row[5:].tolist() == [-math.inf] * 5


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(1, 25), alpha=st.sampled_from([0.1, 0.2, 0.3, 0.5]), share=st.sampled_from([0.3, 0.5, 0.75, 1.0]),
    seed=st.integers(0, 200),
)  # fmt: skip
def test_p_values_are_the_definition_and_thresholds_give_them_back(n, alpha, share, seed):
    rng = np.random.default_rng(seed)
    scores, ranks = rng.integers(0, 12, size=n).astype(float), rng.integers(1, 7, size=n)
    known = RankedScores(scores, ranks, np.zeros(n, dtype=int), 6, alpha, share)
    by_rank = math.floor(share * math.floor((n + 1) * alpha + 1e-9) + 1e-9)
    asked = np.arange(-1.0, 13.0)
    for rank in range(1, 7):
        found = known.p_values(asked[:, None], np.full((asked.size, 1), rank))[:, 0]
        slow = [slow_p(scores, ranks, score, rank, by_rank) for score in asked]
        np.testing.assert_allclose(found, slow, rtol=1e-12)
        np.testing.assert_array_equal(asked <= known.thresholds()[0, rank - 1], found > alpha + 1e-12)


def published(scores, ranks, alpha):
    """RC3P as published: the smallest k with an error below alpha on these rows, the rest of alpha for the score."""
    k = next(k for k in range(1, ranks.max() + 1) if np.mean(ranks > k) < alpha)
    place = math.ceil((scores.size + 1) * (1 - alpha + np.mean(ranks > k)) - 1e-9)
    return k, np.sort(scores)[place - 1] if place <= scores.size else math.inf


@pytest.mark.parametrize(("n", "share"), [(10, 1.0), (20, 0.5)])
def test_the_promise_holds_where_the_score_knows_nothing_of_the_rank(n, share):
    rng, trials, alpha, classes = np.random.default_rng(n), 3000, 0.1, 15
    ours, theirs = 0, 0
    for _ in range(trials):
        ranks, scores = np.minimum(rng.geometric(0.3, size=n + 1), classes), rng.random(n + 1)
        known = RankedScores(scores[:n], ranks[:n], np.zeros(n, dtype=int), classes, alpha, share)
        ours += scores[n] <= known.thresholds()[0, ranks[n] - 1]
        k, most = published(scores[:n], ranks[:n], alpha)
        theirs += ranks[n] <= k and scores[n] <= most
    spread = math.sqrt(0.09 / trials)
    exact = math.ceil((n + 1) * 0.9 - 1e-9) / (n + 1)  # ties of the ranks can only add
    assert exact - 4 * spread < ours / trials < exact + 0.03 + 4 * spread
    assert theirs / trials < 0.9 - 4 * spread


def long_tailed(n, rng, classes=8):
    """A sure model whose class 0 is often far down the ranking."""
    labels = rng.integers(classes, size=n)
    logits = 3 * rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += np.where(labels == 0, 2.0, 5.0)
    return Outputs(logits=logits, labels=labels)


@pytest.mark.parametrize("name", ["lac", "aps"])
def test_every_class_is_covered_through_split_sets(name):
    rng, trials, alpha = np.random.default_rng(1), 60, 0.2
    hits, sizes = [], {by: [] for by in ("label", "label_rank")}
    for _ in range(trials):
        both = long_tailed(1200, rng)
        for by, found in sizes.items():
            seed = None if name == "lac" else rng
            sets = SplitSets(name, alpha=alpha, by=by).calibrate(both[:400], seed).predict(both[400:], seed)
            found.append(sets.sizes.mean())
            if by == "label_rank":
                hits.append(sets.class_coverage(both[400:].labels))
    mean, spread = np.mean(hits, axis=0), np.std(hits, axis=0) / math.sqrt(trials)
    assert (mean > 1 - alpha - 4 * spread).all()
    assert (mean < 1 - alpha + 1 / 40 + 0.03 + 4 * spread).all()
    if name == "aps":
        assert np.mean(sizes["label_rank"]) < np.mean(sizes["label"])


@pytest.mark.parametrize("randomized", [False, True])
@pytest.mark.parametrize("name", ["lac", "aps", "margin", "topk"])
def test_a_label_is_in_the_set_exactly_if_its_p_value_exceeds_alpha(name, randomized):
    rng = np.random.default_rng(2)
    both, seed = long_tailed(700, rng), 5 if randomized else None
    sets = SplitSets(name, alpha=0.2, by=LabelRanks(share=1.0)).calibrate(both[:400], seed)
    member = sets.predict(both[400:], seed).member
    np.testing.assert_array_equal(member, sets.p_values(both[400:], seed, smoothed=False) > 0.2)
    assert 0.1 < member.mean() < 0.9


def test_smoothed_p_values_are_uniform():
    from scipy.stats import kstest

    rng, found = np.random.default_rng(3), []
    for _ in range(800):
        scores, ranks = rng.integers(0, 4, size=21).astype(float), rng.integers(1, 5, size=21)
        known = RankedScores(scores[:20], ranks[:20], np.zeros(20, dtype=int), 5, 0.3)
        found.append(known.p_values(scores[20:, None], ranks[20:, None], rng.random(1))[0, 0])
    assert kstest(found, "uniform").pvalue > 1e-3


def test_a_class_without_rows_stays_possible_and_is_named():
    both = long_tailed(400, np.random.default_rng(4))
    kept = both[np.flatnonzero(both.labels != 3)]
    with pytest.warns(CaveatWarning, match=r"1 of 8 groups \(3\) are too small"):
        sets = SplitSets(alpha=0.2, by="label_rank").calibrate(kept)
    assert sets.predict(both).member[:, 3].all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)
        assert (sets.p_values(both)[:, 3] == 1).all()


def test_pac_is_refused():
    with pytest.raises(InputError, match="label_rank.*on average"):
        SplitSets(by="label_rank", delta=0.1)
