"""CTM: only angles count."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import Head, InputError, Outputs
from caveat.scores import CTM, CTMMean

SHAPES = [
    {"n": 200, "width": 8, "classes": 4},
    {"n": 50, "width": 60, "classes": 4},
    {"n": 120, "width": 8, "classes": 2},
    {"n": 500, "width": 12, "classes": 100},
]


def cosine(u, v):
    return sum(a * b for a, b in zip(u, v, strict=True)) / np.sqrt(sum(a * a for a in u) * sum(b * b for b in v))


def test_by_hand():
    # (3, 4) against (1, 0) and (0, 5): cosines 3/5 and 4/5.
    said = Outputs(features=[[3.0, 4.0]], head=Head([[1.0, 0.0], [0.0, 5.0]], [100.0, 0.0]))
    np.testing.assert_allclose(CTM().score(said), [-0.8], rtol=1e-15)
    np.testing.assert_allclose(CTM().class_scores(said), [[-0.6, -0.8]], rtol=1e-15)
    # Class means (1, 0) and (2, 2): cosine with (3, 4) is 3/5 and 14 / (5 sqrt 8).
    train = Outputs(features=[[2.0, 0.0], [0.0, 0.0], [1.0, 3.0], [3.0, 1.0]], labels=[0, 0, 1, 1])
    np.testing.assert_allclose(CTMMean().fit(train).score(said), [-14 / (5 * np.sqrt(8))], rtol=1e-15)


@pytest.mark.parametrize("shape", SHAPES)
def test_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    expected = [[-cosine(w, h) for w in test.head.weight] for h in test.features]
    np.testing.assert_allclose(CTM().class_scores(test), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(CTM().score(test), np.min(expected, axis=1), rtol=1e-10, atol=1e-12)
    means = [train.features[train.labels == c].mean(axis=0) for c in range(train.n_classes)]
    expected = [[-cosine(m, h) for m in means] for h in test.features]
    found = CTMMean().fit(train)
    np.testing.assert_allclose(found.class_scores(test), expected, rtol=1e-10)
    np.testing.assert_allclose(found.score(test), np.min(expected, axis=1), rtol=1e-10)


def test_a_zero_feature_and_zero_weights_have_cosine_zero():
    head = Head([[0.0, 0.0], [0.0, -5.0]])
    np.testing.assert_array_equal(CTM().score(Outputs(features=[[0.0, 0.0], [0.0, 2.0]], head=head)), [0, 0])


def test_many_classes_and_few_features_are_cut_into_blocks(monkeypatch, make_outputs):
    said = make_outputs(n=300, width=3, classes=50)
    whole = CTM().score(said)
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 1000)
    np.testing.assert_allclose(CTM().score(said), whole, rtol=1e-12)


@pytest.mark.parametrize("scale", [1, 60])
def test_a_head_in_half_precision(scale, make_outputs):
    train = make_outputs(n=40, width=64, classes=4)
    half = (train.head.weight * scale).astype(np.float16)  # of length 8 and 480, whose square float16 cannot hold
    expected = CTM().score(Outputs(features=train.features, head=Head(half.astype(np.float64))))
    found = CTM().score(Outputs(features=train.features, head=Head(half)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_messages(train):
    with pytest.raises(InputError, match=r"CTM needs outputs\.head, which is None"):
        CTM().score(Outputs(features=train.features))
    with pytest.raises(InputError, match="and CTMMean needs every class"):
        CTMMean().fit(Outputs(features=train.features, labels=train.labels + 1))
