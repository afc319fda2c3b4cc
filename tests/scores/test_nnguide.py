from __future__ import annotations

import numpy as np
import pytest

from caveat import Head, InputError, Outputs
from caveat.scores import NNGuide
from caveat.scores.knn import LowestEvidence

SHAPES = [(200, 12, 4), (40, 70, 4), (120, 9, 2), (400, 16, 100)]  # n, D, C: D < N, D > N, two and many classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def literal(bank, head, outputs, k, shift):
    def evidence(h):
        return np.log(np.exp(head.logits(h[None])[0]).sum()) - shift

    found = []
    for h in outputs.features:
        terms = [evidence(g) * (h @ g) / np.linalg.norm(h) / np.linalg.norm(g) for g in bank]
        found.append(-evidence(h) * np.mean(sorted(terms)[-k:]))
    return np.array(found)


def test_by_hand():
    # E = log(e^3 + 1) = 3.0486 for both bank rows; h = (4, 0): E = log(e^4 + 1) = 4.0181, cosines 1 and 0:
    # k = 1: -4.0181 * 3.0486; k = 2: half of that
    train = Outputs(features=[[3.0, 0.0], [0.0, 3.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    said = Outputs(features=[[4.0, 0.0]])
    whole = np.log(np.exp(4) + 1) * np.log(np.exp(3) + 1)
    assert NNGuide(k=1, share=1.0).fit(train).score(said) == pytest.approx([-whole])
    assert NNGuide(k=2, share=1.0).fit(train).score(said) == pytest.approx([-whole / 2])


@shapes
def test_is_the_formula_of_the_paper(n, width, classes, make_outputs):
    train = make_outputs(n=n, width=width, classes=classes, seed=1)
    test = make_outputs(n=30, width=width, classes=classes, seed=2)
    score = NNGuide(k=7, share=1.0).fit(train)
    lowest = np.log(np.exp(train.logits).sum(axis=1)).min()
    expected = literal(train.features, train.head, test, 7, min(0.0, lowest))
    np.testing.assert_allclose(score.score(test), expected, rtol=1e-9)


def test_positive_evidence_is_left_as_in_the_paper(train, make_outputs):
    high = Outputs(features=train.features, head=Head(train.head.weight, train.head.bias + 500))
    assert NNGuide().fit(high).shift_ == 0.0


def test_negative_evidence_is_shifted_and_keeps_the_order():
    # Every E is negative: without the shift the row that points away from the bank would look the most inlying.
    rng = np.random.default_rng(0)
    features = np.abs(rng.normal(size=(200, 6))) + np.eye(6)[rng.integers(3, size=200)] * 4
    head = Head(np.eye(3, 6), np.full(3, -60.0))
    train = Outputs(features=features, head=head)
    score = NNGuide(k=5, share=1.0).fit(train)
    assert score.shift_ == pytest.approx(np.log(np.exp(head.logits(features)).sum(axis=1)).min())
    with_it, against_it = np.array([[5.0, 0.5, 0.5, 0.5, 0.5, 0.5]]), np.array([[5.0, 0, 0, -9.0, -9.0, -9.0]])
    assert score.score(Outputs(features=with_it))[0] < score.score(Outputs(features=against_it))[0]


def test_less_evidence_than_all_training_data_and_the_wrong_way_is_no_inlier():
    # Training evidence is positive, so nothing is shifted. At (-5, -5) it is log 2 - 5 < 0, and so is every cosine.
    train = Outputs(features=[[3.0, 1.0], [1.0, 3.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    score = NNGuide(k=2, share=1.0).fit(train)
    # both rows have E = log(e^3 + e) and cosine -4 / sqrt(20) to the query: the product of the sizes
    expected = (5 - np.log(2)) * np.log(np.exp(3) + np.e) * 4 / np.sqrt(20)
    assert score.score(Outputs(features=[[-5.0, -5.0]])) == pytest.approx([expected])
    assert (score.score(train) < 0).all()


def test_the_bank_is_a_seeded_draw_and_not_the_first_rows(train):
    first, same, other = (NNGuide(share=0.1).fit(train, rng=seed).bank_ for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert first.shape == (24, train.features.shape[1])
    assert not np.array_equal(first, other)
    prefix = NNGuide(share=1.0).fit(train).bank_[:24]
    assert not np.array_equal(first, prefix)


def test_a_small_share_still_gives_k_rows(train):
    assert NNGuide(k=10, share=0.001).fit(train).bank_.shape[0] == 10


def test_many_tiles_give_the_same(train, inlier, monkeypatch):
    score = NNGuide(k=5, share=1.0).fit(train)
    whole = score.score(inlier)
    monkeypatch.setattr("caveat.scores.knn._TILE_BYTES", 1)  # one bank row at a time
    np.testing.assert_allclose(score.score(inlier), whole, rtol=1e-12)


def test_the_lowest_evidence_merges(train, inlier):
    def gathered(outputs):
        found = LowestEvidence()
        found.begin(outputs)
        found.update(outputs)
        return found

    a, b = gathered(train), gathered(inlier)
    both = np.concatenate([train.logits, inlier.logits])
    assert (a + b).lowest == pytest.approx(np.log(np.exp(both).sum(axis=1)).min(), rel=1e-12)
    assert (a + b).lowest == (b + a).lowest


def test_messages(train, inlier):
    with pytest.raises(InputError, match=r"k must be .* at most 240, got 300"):
        NNGuide(k=300).fit(train)
    assert NNGuide(k=300).missing(train=train, outputs=inlier) == "needs at least k = 300 training rows, got 240"
    with pytest.raises(InputError, match="share must be above 0 and at most 1, got 0"):
        NNGuide(share=0)
