from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from caveat._internal.ranking import Ranked
from caveat.evaluation.rank import error_placements, rank_methods
from caveat.metrics import Placements, augrc, paired_p_value
from caveat.stats.posthoc import holm


@pytest.fixture
def placements():
    rng = np.random.default_rng(0)
    inlier, near, far = rng.normal(size=300), rng.normal(1, size=200), rng.normal(4, size=250)
    found = {"clean": Placements.of(inlier=inlier, outliers=[near, far])}
    for scale in (1, 2, 4):
        noise = rng.normal(scale=scale, size=500)
        found[f"noise {scale}"] = Placements.of(inlier=inlier + noise[:300], outliers=[near + noise[300:], far])
    return found


def test_every_pair_is_tested_and_adjusted_together(placements):
    found = rank_methods(placements, alpha=0.05)
    pairs = list(combinations(found.methods, 2))
    raw = [paired_p_value(placements[a], placements[b]) for a, b in pairs]
    assert [found.pairwise[pair] for pair in pairs] == pytest.approx(holm(raw).tolist())
    assert all(found.tied(a, b) == (p >= 0.05) for (a, b), p in zip(pairs, holm(raw), strict=True))


def test_the_rank_counts_those_that_are_significantly_better(placements):
    found = rank_methods(placements, alpha=0.05)
    for name in found.methods:
        better = [o for o in found.methods if placements[o].auroc > placements[name].auroc and not found.tied(o, name)]
        assert found.rank(name) == 1 + len(better)
    assert found.rank(found.methods[0]) == 1


def test_the_order_does_not_depend_on_the_order_given(placements):
    backwards = dict(reversed(placements.items()))
    assert rank_methods(backwards).average_ranks == rank_methods(placements).average_ranks
    assert rank_methods(backwards).layers == rank_methods(placements).layers


def test_adding_a_poor_score_changes_no_order(placements):
    some = {name: placements[name] for name in ("clean", "noise 2")}
    assert [m for m in rank_methods(placements).methods if m in some] == list(rank_methods(some).methods)


def test_augrc_and_auroc_of_errors_order_alike():
    """AUGRC_a - AUGRC_b = (AUROC_b - AUROC_a) n_right n_wrong / n^2 on the same answers."""
    rng = np.random.default_rng(1)
    correct = rng.random(500) < 0.8
    a, b = rng.normal(size=500) - correct, rng.normal(size=500) - 2 * correct
    gap = augrc(score=a, correct=correct) - augrc(score=b, correct=correct)
    areas = error_placements(Ranked.of(b), correct).auroc - error_placements(Ranked.of(a), correct).auroc
    assert gap == pytest.approx(areas * correct.sum() * (~correct).sum() / 500**2)


def test_alike_scores_are_rarely_told_apart():
    """Ten noisy copies of one score: the chance of any false difference stays at alpha (Holm)."""
    rng, trials, wrong = np.random.default_rng(2), 120, 0
    for _ in range(trials):
        inlier, outlier = rng.normal(size=200), rng.normal(1, size=200)
        noise = rng.normal(scale=0.5, size=(6, 400))
        copies = {str(i): Placements.of(inlier=inlier + noise[i, :200], outliers=[outlier + noise[i, 200:]])
                  for i in range(6)}  # fmt: skip
        wrong += len(rank_methods(copies).layers) > 1
    assert wrong / trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)
