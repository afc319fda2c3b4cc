from __future__ import annotations

import numpy as np

from caveat import data


def test_pixels_are_shares_of_ink():
    images = data.digits()
    assert len(images) == 1797
    assert images.pixels.min() == 0
    assert images.pixels.max() == 1
    assert np.bincount(images.labels).min() > 170


def test_shifting_moves_the_ink_and_loses_what_leaves():
    one = np.zeros((400, 8, 8))
    one[:, 4, 3] = 1.0
    moved = data.shifted(one, np.random.default_rng(0))
    assert set(moved.sum(axis=(1, 2))) <= {0.0, 1.0}
    rows, columns = np.nonzero(moved)[1:]
    assert set(rows) == {1, 2, 6, 7}  # 4 -+ 2 or 3
    assert set(columns) == {0, 1, 5, 6}


def test_occlusion_covers_sixteen_pixels():
    covered = data.occluded(np.zeros((50, 8, 8)), np.random.default_rng(0))
    np.testing.assert_array_equal(covered.sum(axis=(1, 2)), 16)


def test_rotation_keeps_the_frame_and_the_range():
    pixels = data.digits().pixels[:40]
    turned = data.rotated(pixels, np.random.default_rng(0))
    assert turned.shape == pixels.shape
    assert 0 <= turned.min() <= turned.max() <= 1
    assert np.abs(turned - pixels).mean() > 0.1


def test_inverting_twice_is_nothing():
    pixels = data.digits().pixels[:10]
    np.testing.assert_allclose(data.inverted(data.inverted(pixels)), pixels)


def test_noise_is_seeded_and_inputs_are_not_changed():
    first, second = (data.noise(3, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    pixels = data.digits().pixels[:10]
    before = pixels.copy()
    data.occluded(pixels, np.random.default_rng(0))
    np.testing.assert_array_equal(pixels, before)
