from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError
from caveat.metrics import augrc, aurc, balanced_augrc, balanced_aurc

cases = st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.sampled_from([0, 2, 3])), min_size=1, max_size=30)


def literal(score, correct, labels):
    """Both curves, threshold by threshold and class by class."""
    score, correct, labels = map(np.asarray, (score, correct, labels))
    classes = np.unique(labels)
    coverage, selective, generalized = [0.0], [], [0.0]
    for cut in np.unique(score):
        kept = score <= cut
        coverage.append(kept.mean())
        rates = [np.mean(~correct[kept & (labels == c)]) if (kept & (labels == c)).any() else 0.0 for c in classes]
        selective.append(np.mean(rates))
        generalized.append(np.mean([np.sum(kept & ~correct & (labels == c)) / np.sum(labels == c) for c in classes]))
    return np.trapezoid([selective[0], *selective], coverage), np.trapezoid(generalized, coverage)


@given(cases)
def test_both_equal_the_literal_walk(case):
    score, correct, labels = zip(*case, strict=True)
    expected = literal(score, correct, labels)
    found = (
        balanced_aurc(score=score, correct=correct, labels=labels),
        balanced_augrc(score=score, correct=correct, labels=labels),
    )
    assert found == pytest.approx(expected)


def test_by_hand():
    # accepted in order: class 0 right, 0 wrong, 0 right, 1 wrong. Mean error rates 0, 1/4, 1/6, (1/3 + 1)/2:
    # area (0 + 1/8 + 5/24 + 5/12) / 4 = 3/16.
    # Weighted errors 1/(2 * 3) then 1/2: risks 0, 1/6, 1/6, 2/3: area (1/12 + 1/6 + 5/12) / 4
    options = {"score": [1, 2, 3, 4], "correct": [1, 0, 1, 0], "labels": [0, 0, 0, 1]}
    assert balanced_aurc(**options) == pytest.approx(3 / 16)
    assert balanced_augrc(**options) == pytest.approx((1 / 12 + 1 / 6 + 5 / 12) / 4)


@given(cases)
def test_one_class_is_the_plain_metric(case):
    score, correct, _ = zip(*case, strict=True)
    labels = np.zeros(len(score), dtype=int)
    assert balanced_aurc(score=score, correct=correct, labels=labels) == pytest.approx(
        aurc(score=score, correct=correct)
    )
    assert balanced_augrc(score=score, correct=correct, labels=labels) == pytest.approx(
        augrc(score=score, correct=correct)
    )


def test_labels_must_fit():
    with pytest.raises(InputError, match=r"same length, got 2 and 1"):
        balanced_aurc(score=[1, 2], correct=[1, 0], labels=[0])
