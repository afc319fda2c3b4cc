from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from sklearn.metrics.pairwise import polynomial_kernel

from caveat import InputError, Outputs
from caveat_lab.geometry import frechet, mmd, proximities, proximity


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def pair(seed, n=40, m=30, width=5, shift=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, width)), rng.normal(size=(m, width)) + shift


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_frechet_equals_the_matrix_square_root(seed):
    a, b = pair(seed)
    x, y = unit(a), unit(b)
    s, t = np.cov(x.T), np.cov(y.T)
    root = sqrtm(s)
    expected = np.sum((x.mean(0) - y.mean(0)) ** 2) + np.trace(s + t - 2 * sqrtm(root @ t @ root).real)
    assert frechet(a, b) == pytest.approx(expected, abs=1e-9)
    assert frechet(a, b) == pytest.approx(frechet(b, a), abs=1e-9)


@pytest.mark.parametrize(("degree", "gamma", "offset"), [(3, None, 1.0), (1, 2.0, 0.0), (2, 0.5, 1.5)])
def test_mmd_equals_the_double_sum(degree, gamma, offset):
    a, b = pair(1)
    x, y = unit(a), unit(b)
    options = {"degree": degree, "gamma": gamma, "coef0": offset}
    among = [polynomial_kernel(z, **options) for z in (x, y)]
    expected = sum((k.sum() - np.trace(k)) / (len(k) * (len(k) - 1)) for k in among)
    expected -= 2 * polynomial_kernel(x, y, **options).mean()
    assert mmd(a, b, degree=degree, gamma=gamma, offset=offset) == pytest.approx(expected, abs=1e-12)


def test_blocks_do_not_change_the_result(monkeypatch):
    a, b = pair(2, n=50, m=33)
    labels = np.arange(50) % 3
    whole = proximity(inlier=a, outlier=b, labels=labels)
    monkeypatch.setattr(sys.modules["caveat_lab.geometry.proximity"], "_ROWS", 7)
    parts = proximity(inlier=a, outlier=b, labels=labels)
    assert parts.mmd == pytest.approx(whole.mmd)
    assert parts.frechet == pytest.approx(whole.frechet)
    assert parts.centroid == pytest.approx(whole.centroid)


def test_centroid_and_text_by_hand():
    # class means (1, 0) and (0, 1); the outlier at 45 degrees has cosine 1/sqrt(2) with the nearer of equals
    inlier, labels = [[2.0, 0.0], [3.0, 0.0], [0.0, 5.0]], [0, 0, 1]
    found = proximity(inlier=inlier, outlier=[[1.0, 1.0], [0.0, 9.0]], labels=labels, text=[[1.0, 0.0]])
    assert found.centroid == pytest.approx((1 - 1 / np.sqrt(2) + 0) / 2)
    assert found.text == pytest.approx((1 - 1 / np.sqrt(2) + 1) / 2)
    assert (found.n_inlier, found.n_outlier) == (3, 2)


def test_the_same_distribution_is_near_and_mmd_is_unbiased():
    rng, found = np.random.default_rng(3), []
    for _ in range(300):
        found.append(mmd(rng.normal(size=(20, 4)), rng.normal(size=(15, 4))))
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(300)
    assert min(found) < 0


def test_length_of_the_rows_does_not_matter():
    a, b = pair(4)
    scaled = proximity(inlier=a * np.random.default_rng(0).uniform(0.1, 9, (40, 1)), outlier=b * 1e3)
    plain = proximity(inlier=a, outlier=b)
    assert scaled.frechet == pytest.approx(plain.frechet)
    assert scaled.mmd == pytest.approx(plain.mmd)


def test_outputs_give_embeddings_before_features_and_their_labels():
    a, b = pair(5)
    labels = np.arange(40) % 4
    known = Outputs(features=np.ones((40, 2)), embeddings=a, labels=labels)
    found = proximity(inlier=known, outlier=Outputs(embeddings=b))
    assert found == proximity(inlier=a, outlier=b, labels=labels)
    assert proximity(inlier=Outputs(features=a), outlier=Outputs(features=b)).centroid is None


def test_float16_and_a_class_without_samples():
    a, b = pair(6)
    half = proximity(inlier=a.astype(np.float16), outlier=b.astype(np.float16), labels=np.arange(40) % 2 * 5)
    full = proximity(inlier=a, outlier=b, labels=np.arange(40) % 2)
    assert half.frechet == pytest.approx(full.frechet, abs=1e-3)
    assert half.centroid == pytest.approx(full.centroid, abs=1e-3)


def test_bad_input():
    a, b = pair(7)
    with pytest.raises(InputError, match="same width, got 5 and 4"):
        proximity(inlier=a, outlier=b[:, :4])
    with pytest.raises(InputError, match="at least 2 rows on each side, got 1"):
        proximity(inlier=a, outlier=b[:1])
    with pytest.raises(InputError, match="outlier needs embeddings"):
        proximity(inlier=a, outlier=Outputs(logits=[[1.0, 2.0]]))
    with pytest.raises(InputError, match="text and inlier must have the same width"):
        proximity(inlier=a, outlier=b, text=[[1.0]])
    with pytest.raises(InputError, match="same length"):
        proximity(inlier=a, outlier=b, labels=[0])
    with pytest.raises(InputError, match="inlier has NaN"):
        proximity(inlier=a * np.nan, outlier=b)
    for distance in (frechet, mmd):
        with pytest.raises(InputError, match="first and second must have the same width, got 5 and 4"):
            distance(a, b[:, :4])
    with pytest.raises(InputError, match="offset must be a finite number, got nan"):
        mmd(a, b, offset=np.nan)


def test_embeddings_do_not_compare_with_features():
    a, b = pair(7)
    full, bare = Outputs(features=a, embeddings=a), Outputs(features=b)
    with pytest.raises(InputError, match="must come from one encoder, but only inlier has embeddings"):
        proximity(inlier=full, outlier=bare)
    with pytest.raises(InputError, match="only far has embeddings. Store those of inlier too"):
        proximities(inlier=bare, outliers={"far": full})


def test_several_sets_at_once_are_those_of_each_alone():
    rng = np.random.default_rng(8)
    train, labels = rng.normal(size=(60, 5)), rng.integers(3, size=60)
    others = {name: rng.normal(shift, size=(n, 5)) for name, shift, n in (("a", 1, 30), ("b", -2, 45))}
    found = proximities(inlier=train, outliers=others, labels=labels)
    assert list(found) == ["a", "b"]
    for name, rows in others.items():
        assert found[name] == proximity(inlier=train, outlier=rows, labels=labels)
        assert found[name].mmd == pytest.approx(mmd(train, rows))
    with pytest.raises(InputError, match="inlier and narrow must have the same width, got 5 and 4"):
        proximities(inlier=train, outliers={"narrow": train[:, :4]})


def test_what_the_inliers_alone_take_is_computed_once(monkeypatch):
    a, b = pair(9)
    read = []
    module = sys.modules["caveat_lab.geometry.proximity"]
    blocks = module._unit_blocks
    monkeypatch.setattr(module, "_unit_blocks", lambda rows: read.append(len(rows)) or blocks(rows))
    proximities(inlier=a, outliers={"one": b})
    alone, once = read.count(len(a)), len(read)
    proximities(inlier=a, outliers={"one": b, "two": b, "three": b})
    # A further set reads the inliers once more, for the pairs across: not for their Gaussian or their own pairs.
    assert read[once:].count(len(a)) == alone + 2


def test_text_prototypes_are_means_over_prompts():
    # Prompts (2, 0) and (0, 2) of one class average to (1, 1), which is at 45 degrees from both axes.
    found = proximity(
        inlier=[[1.0, 0.0], [1.0, 0.1]], outlier=[[1.0, 0.0], [0.0, 3.0]], text=[[[2.0, 0.0], [0.0, 2.0]]]
    )
    assert found.text == pytest.approx(1 - np.sqrt(0.5))
    with pytest.raises(InputError, match="text"):
        proximity(inlier=[[1.0, 0.0], [1.0, 0.1]], outlier=[[1.0, 0.0], [0.0, 3.0]], text=[[[[1.0, 0.0]]]])
