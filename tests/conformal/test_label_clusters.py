"""Clustered class-conditional sets: the clustering by hand, a separate split, and the promise within each cluster."""

import math
import warnings

import numpy as np
import pytest

from caveat import Outputs
from caveat.conformal import LabelClusters, SplitSets
from caveat.errors import CaveatWarning, InputError


def two_kinds(n, rng, classes=30, shares=None):
    """Classes 0, 2, 4, ... are easy, the others hard."""
    labels = rng.choice(classes, size=n, p=shares)
    logits = rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += np.where(labels % 2 == 0, 6.0, 2.0) + rng.normal(size=n)
    return Outputs(logits=logits, labels=labels)


def test_alike_classes_share_a_cluster_and_rare_ones_are_pooled():
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.repeat(np.arange(6), 40), [6, 6, 7]])
    scores = rng.random(labels.size) / 10 + (labels % 2)
    found = LabelClusters(clusters=2).clusters_of(scores, labels, 9, alpha=0.1, rng=rng)
    assert found.tolist() == [1, 2, 1, 2, 1, 2, 0, 0, 0]  # 2, 1 and 0 rows are fewer than 9: pooled
    # alpha .01 needs 99 rows of a class: all are pooled
    assert LabelClusters().clusters_of(scores, labels, 9, alpha=0.01, rng=rng).tolist() == [0] * 9


def test_the_number_of_clusters_follows_the_smallest_class():
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.repeat(np.arange(10), 30), np.repeat(10, 12)])
    found = LabelClusters().clusters_of(rng.random(labels.size), labels, 11, alpha=0.1, rng=rng)
    assert set(found) == set(range(1, 7))  # 12 rows: half of them


def test_rows_that_cluster_set_no_threshold():
    rng = np.random.default_rng(1)
    both = two_kinds(3000, rng)
    sets = SplitSets(by=LabelClusters(share=0.3, clusters=2)).calibrate(both, clustering=7)
    assert sets.clustering_rows_.size == 900 == np.unique(sets.clustering_rows_).size
    assert sets.grouped_.scores.size == 2100
    left = np.delete(np.arange(3000), sets.clustering_rows_)
    for cluster, threshold in zip(sets.grouped_.names, sets.thresholds_, strict=True):
        rows = left[sets.clusters_[both.labels[left]] == cluster]
        alone = SplitSets().calibrate(both[rows])
        assert threshold == pytest.approx(alone.threshold_)
    again = SplitSets(by=LabelClusters(share=0.3, clusters=2)).calibrate(both, clustering=7)
    np.testing.assert_array_equal(again.clustering_rows_, sets.clustering_rows_)
    other = SplitSets(by=LabelClusters(share=0.3, clusters=2)).calibrate(both, clustering=8)
    assert not np.array_equal(other.clustering_rows_, sets.clustering_rows_)


def test_other_outputs_can_cluster_so_that_all_rows_calibrate():
    rng = np.random.default_rng(2)
    both = two_kinds(2400, rng)
    sets = SplitSets("lac", by=LabelClusters(clusters=2)).calibrate(both[:1200], 0, clustering=both[1200:])
    assert sets.grouped_.scores.size == 1200
    assert sets.clusters_.tolist() == [1, 2] * 15  # the easy classes have the lower scores
    with pytest.raises(InputError, match="number of classes"):
        SplitSets(by="cluster").calibrate(both, clustering=Outputs(logits=np.zeros((9, 2)), labels=np.arange(9) % 2))
    with pytest.raises(InputError, match=r"clustering=\) needs outputs.labels"):
        SplitSets(by="cluster").calibrate(both, clustering=Outputs(logits=both.logits))


@pytest.mark.parametrize("name", ["lac", "aps"])
def test_coverage_holds_within_every_cluster_and_nearly_in_every_class(name):
    # 30 classes of 20 rows: one threshold covers easy and hard classes unequally, one per class is nearly infinite.
    rng, trials, alpha = np.random.default_rng(3), 60, 0.2
    hits, gaps, sizes = {1: [], 2: []}, {"cluster": [], None: []}, {"cluster": [], "label": []}
    for _ in range(trials):
        both = two_kinds(1600, rng)
        seed = None if name == "lac" else rng
        for by in ("cluster", None, "label"):
            scheme = LabelClusters(clusters=2, share=0.4, least=3) if by == "cluster" else by
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CaveatWarning)  # a class of too few rows
                sets = SplitSets(name, alpha=alpha, by=scheme).calibrate(both[:600], seed, clustering=rng)
            found = sets.predict(both[600:], seed)
            covered, labels = found.covers(both[600:].labels), both[600:].labels
            if by == "cluster":
                for cluster, shares in hits.items():
                    inside = sets.clusters_[labels] == cluster
                    if inside.any():
                        shares.append(covered[inside].mean())
            if by in gaps:
                gaps[by].append(covered[labels % 2 == 1].mean())
            if by in sizes:
                sizes[by].append(found.sizes.mean())
    for shares in hits.values():
        spread = np.std(shares) / math.sqrt(len(shares))
        assert 1 - alpha - 4 * spread < np.mean(shares) < 1 - alpha + 0.01 + 4 * spread
    if name == "lac":  # aps is adaptive: it covers the hard classes with one threshold
        assert np.mean(gaps["cluster"]) > np.mean(gaps[None]) + 0.02
    assert np.mean(sizes["cluster"]) < np.mean(sizes["label"])


def test_p_values_and_pac_follow_the_clusters():
    rng = np.random.default_rng(4)
    both = two_kinds(2000, rng)
    sets = SplitSets(alpha=0.1, by=LabelClusters(clusters=2)).calibrate(both[:1500])
    member = sets.predict(both[1500:]).member
    np.testing.assert_array_equal(member, sets.p_values(both[1500:]) > 0.1)
    pac = SplitSets(alpha=0.1, by=LabelClusters(clusters=2), delta=0.05).calibrate(both[:1500])
    assert (pac.thresholds_ > sets.thresholds_).all()
    assert "each of 2 groups by itself" in pac.caveat_
    assert "within each cluster of labels, not within each label" in str(sets.predict(both[1500:]))


def test_rare_classes_keep_the_promise_of_the_pooled_cluster():
    # Classes 20 to 29 are rare and all of them hard. With the threshold of all rows they would not be covered.
    rng, trials, alpha = np.random.default_rng(5), 80, 0.2
    hits, marginal = [], []
    shares = np.concatenate([np.full(20, 4.0), np.full(10, 0.6)])
    for _ in range(trials):
        both = two_kinds(1800, rng, shares=shares / shares.sum())
        logits = both.logits.copy()
        rows = np.flatnonzero(both.labels >= 20)
        logits[rows, both.labels[rows]] -= 2
        both = Outputs(logits=logits, labels=both.labels)
        sets = SplitSets(alpha=alpha, by=LabelClusters(clusters=2, share=0.4)).calibrate(both[:1000], clustering=rng)
        pooled = sets.clusters_[both[1000:].labels] == 0
        hits.append(sets.predict(both[1000:]).covers(both[1000:].labels)[pooled].mean())
        marginal.append(SplitSets(alpha=alpha).calibrate(both[:1000]).predict(both[1000:])
                        .covers(both[1000:].labels)[pooled].mean())  # fmt: skip
    assert np.mean(hits) > 1 - alpha - 4 * np.std(hits) / math.sqrt(trials)
    assert np.mean(marginal) < 1 - alpha - 4 * np.std(marginal) / math.sqrt(trials)


def test_clear_errors():
    with pytest.raises(InputError, match="share must be strictly between 0 and 1"):
        LabelClusters(share=1.5)
    with pytest.raises(InputError, match="clusters must be a whole number"):
        LabelClusters(clusters=0)
    with pytest.raises(InputError, match="at least 2"):
        SplitSets(alpha=0.5, by="cluster").calibrate(Outputs(probs=[[0.8, 0.2]], labels=[0]))
    both = two_kinds(1500, np.random.default_rng(0))
    sets = SplitSets(by="cluster").calibrate(both)
    with pytest.raises(InputError, match="by cluster and are now asked with groups"):
        sets.predict(both, groups=np.zeros(1500, dtype=int))
