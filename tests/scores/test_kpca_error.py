"""Kernel PCA error: two maps for one kernel."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import KernelPCAError
from caveat.scores._statistics import gather
from caveat.scores.kpca_error import LeastConfident

SHAPES = [
    {"n": 200, "width": 8, "classes": 4},
    {"n": 50, "width": 60, "classes": 4},
    {"n": 120, "width": 8, "classes": 2},
    {"n": 300, "width": 12, "classes": 100},
]


def unit(rows):
    return np.array([row / np.sqrt(sum(row**2)) for row in rows])


def kernel(a, b, width):
    return np.array([[np.exp(-np.sum((u - v) ** 2) / (2 * width**2)) for v in b] for u in a])


def relative_error(train, test, variance):
    """norm(psi - psi_hat) / norm(psi) after ordinary PCA of the mapped training rows."""
    mean = train.mean(axis=0)
    values, vectors = np.linalg.eigh((train - mean).T @ (train - mean))
    values, vectors = values[::-1], vectors[:, ::-1]
    k = next(k for k in range(1, len(values) + 1) if values[:k].sum() >= variance * values.sum())
    projector = vectors[:, :k] @ vectors[:, :k].T
    return [np.linalg.norm(psi - (projector @ (psi - mean) + mean)) / np.linalg.norm(psi) for psi in test]


def test_nystrom_by_hand():
    # Landmarks: the two rows with the smallest log-sum-exp, at angles 0 and 90 degrees. Sigma = 1: the kernel between
    # them is q = e^-1, K = [[1, q], [q, 1]]. In its eigenbasis psi(0) = (sqrt(1 + q), sqrt(1 - q)) / sqrt 2; psi(90)
    # has the second sign turned. The row at 45 has the kernel value r = e^-(1 - cos 45) with both, so psi(45) lies on
    # the first axis. PCA of the three finds these axes; the first varies less and is what is left out.
    train = Outputs(features=[[5.0, 0.0], [0.0, 2.0], [1.0, 1.0]], logits=[[0.0, 0.0], [0.1, 0.0], [9.0, 0.0]])
    q, r = np.exp(-1), np.exp(-(1 - np.sqrt(0.5)))
    ends, middle = np.sqrt((1 + q) / 2), 2 * r / np.sqrt(2 * (1 + q))
    mean = (2 * ends + middle) / 3
    score = KernelPCAError(size=2, width=1.0, variance=0.9).fit(train)
    # |psi(0)| = 1, as k(x, x) = 1 for a landmark.
    np.testing.assert_allclose(
        score.score(Outputs(features=[[3.0, 0.0], [2.0, 2.0]])),
        [abs(ends - mean), abs(middle - mean) / middle],
        rtol=1e-9,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_nystrom_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    confidence = [np.log(np.sum(np.exp(z))) for z in train.logits]
    landmarks = unit(train.features[np.argsort(confidence)[:20]])
    # A narrow kernel: K is far from singular, so that nothing is cut off.
    values, vectors = np.linalg.eigh(kernel(landmarks, landmarks, 0.3))
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    mapped = [kernel(unit(rows.features), landmarks, 0.3) @ root for rows in (train, test)]
    expected = relative_error(*mapped, 0.8)
    found = KernelPCAError(size=20, width=0.3, variance=0.8).fit(train).score(test)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_fourier_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    score = KernelPCAError(features="fourier", size=30, width=0.5, variance=0.8).fit(Outputs(features=train.features))

    def psi(rows):
        angles = np.array([[np.dot(w, h) for w in score.anchors_] for h in unit(rows)])
        return np.sqrt(2 / 30) * np.hstack([np.cos(angles), np.sin(angles)])

    expected = relative_error(psi(train.features), psi(test.features), 0.8)
    np.testing.assert_allclose(score.score(test), expected, rtol=1e-6)


def test_fourier_features_have_the_kernel_as_inner_product(train):
    """Each of the 5000 frequencies gives an unbiased guess in [-1, 1]: five standard errors are 5 / sqrt 5000."""
    score = KernelPCAError(features="fourier", size=10_000, width=0.7)
    score.width_ = 0.7
    score.anchors_ = np.random.default_rng(0).normal(size=(5000, 12)) / 0.7
    rows = unit(train.features[:15])
    mapped = score._raw(rows)
    np.testing.assert_allclose(mapped @ mapped.T, kernel(rows, rows, 0.7), atol=5 / np.sqrt(5000))


def test_with_all_rows_as_landmarks_the_training_kernel_is_exact(make_outputs):
    train = make_outputs(n=40, width=60, seed=1)
    score = KernelPCAError(width=0.5).fit(train)
    mapped = score._map(train.features)
    np.testing.assert_allclose(mapped @ mapped.T, kernel(unit(train.features), unit(train.features), 0.5), atol=1e-6)


def test_the_default_width_gives_a_typical_pair_the_kernel_value_one_over_e(train):
    rows = unit(train.features)
    squared = np.array([[np.sum((a - b) ** 2) for b in rows] for a in rows])  # zeros on the diagonal: all pairs
    for features in ("nystrom", "fourier"):
        score = KernelPCAError(features=features).fit(train)
        assert np.exp(-squared.mean() / (2 * score.width_**2)) == pytest.approx(np.exp(-1), rel=1e-6)
        given = KernelPCAError(features=features, width=score.width_).fit(train)
        np.testing.assert_array_equal(given.score(train), score.score(train))


def test_the_default_width_ignores_scale(train):
    width = KernelPCAError(features="fourier").fit(train).width_
    scaled = Outputs(features=train.features * 1e3)
    assert KernelPCAError(features="fourier").fit(scaled).width_ == pytest.approx(width, rel=1e-9)
    one_way = Outputs(features=np.arange(1.0, 9.0)[:, None] * [1.0, 2.0])
    with pytest.raises(InputError, match="features must vary"):
        KernelPCAError(features="fourier").fit(one_way)


@pytest.mark.parametrize(("width", "size"), [(12, 128), (100, 200)])
def test_the_default_size_follows_the_features(width, size, make_outputs):
    train = make_outputs(n=300, width=width, seed=1)
    assert KernelPCAError().fit(train).anchors_.shape == (size, width)
    assert KernelPCAError(features="fourier").fit(train).turn_.shape[0] == size


def test_the_seed_and_nothing_else_decides(train, inlier):
    def values(seed):
        return KernelPCAError(features="fourier").fit(train, rng=seed).score(inlier)

    np.testing.assert_array_equal(values(0), values(0))
    assert np.abs(values(0) - values(1)).max() > 1e-6


@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_only_directions_count_and_zero_is_finite(features, train, inlier):
    score = KernelPCAError(features=features).fit(train)
    stretched = Outputs(features=inlier.features * 1e3)
    np.testing.assert_allclose(score.score(stretched), score.score(inlier), rtol=1e-6)
    assert np.isfinite(score.score(Outputs(features=np.zeros((1, 12))))).all()


def test_few_features_and_many_landmarks_are_cut_into_blocks(monkeypatch, train, inlier):
    whole = KernelPCAError().fit(train).score(inlier)
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 100_000)
    np.testing.assert_allclose(KernelPCAError().fit(train).score(inlier), whole, rtol=1e-8)


def test_least_confident_rows_add_up(train):
    recipe = LeastConfident(25)
    whole = gather(train, [recipe])[recipe]
    both = gather(train[:7], [recipe])[recipe] + gather(train[7:], [recipe])[recipe]
    np.testing.assert_array_equal(both.rows, whole.rows)
    np.testing.assert_array_equal(both.confidence, whole.confidence)
    least = np.argsort([np.log(np.sum(np.exp(z))) for z in train.logits])[:25]
    np.testing.assert_array_equal(whole.rows, train.features[least])


def test_messages(train):
    bare = Outputs(features=train.features)
    with pytest.raises(InputError, match=r"picks landmarks by train\.logits, which is None"):
        KernelPCAError().fit(bare)
    assert KernelPCAError().missing(train=bare, outputs=bare) == "needs logits of the training outputs"
    assert KernelPCAError(features="fourier").missing(train=bare, outputs=bare) == ""
    with pytest.raises(InputError, match=r"unknown features .* 'nystroem'\. Did you mean 'nystrom'"):
        KernelPCAError(features="nystroem")
    with pytest.raises(InputError, match="size must be even for Fourier features"):
        KernelPCAError(features="fourier", size=7)
