from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from caveat import InputError
from caveat_lab import data


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


@pytest.fixture
def colour():
    return np.random.default_rng(5).integers(0, 256, size=(6, 12, 8, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "make", [data.shifted, data.rotated, data.occluded, data.permuted, data.block_shuffled], ids=lambda f: f.__name__
)
def test_any_shape_and_bytes_will_do(make, colour):
    before = colour.copy()
    strange = make(colour, np.random.default_rng(0))
    assert strange.shape == colour.shape
    assert strange.dtype == np.float32
    assert 0 <= strange.min() <= strange.max() <= 1
    assert np.abs(strange - colour / 255).mean() > 0.02
    np.testing.assert_array_equal(colour, before)
    with pytest.raises(InputError, match=r"pixels must have shape .* got \(12, 8\)"):
        make(colour[0, :, :, 0], np.random.default_rng(0))


def test_a_permutation_keeps_every_pixel_with_its_colours(colour):
    mixed = data.permuted(colour, np.random.default_rng(0))
    for before, after in zip(colour, mixed, strict=True):
        pixels = sorted(map(tuple, np.round(after.reshape(-1, 3) * 255).astype(int).tolist()))
        assert pixels == sorted(map(tuple, before.reshape(-1, 3).astype(int).tolist()))
    np.testing.assert_array_less(1e-6, np.abs(mixed[0] - colour[0] / 255).sum())
    # Each image gets its own random order: the same image twice gives two results.
    twice = data.permuted(colour[[0, 0]], np.random.default_rng(0))
    assert np.abs(twice[0] - twice[1]).max() > 0


def test_tiles_change_places_and_nothing_else():
    # 4 x 4 image of 2 x 2 tiles, each tile filled with its own number.
    image = np.kron(np.arange(4).reshape(2, 2) / 4, np.ones((2, 2)))[None]
    shuffled = data.block_shuffled(image, np.random.default_rng(3), blocks=2)[0]
    tiles = [shuffled[i : i + 2, j : j + 2] for i in (0, 2) for j in (0, 2)]
    assert all(np.unique(tile).size == 1 for tile in tiles)
    assert sorted(float(tile[0, 0]) for tile in tiles) == [0, 0.25, 0.5, 0.75]
    assert np.abs(shuffled - image[0]).max() > 0


def test_tiles_must_fit(colour):
    with pytest.raises(InputError, match="must be multiples of blocks = 5, got 12 x 8"):
        data.block_shuffled(colour, np.random.default_rng(0), blocks=5)


def test_smooth_noise_is_the_filtered_noise_stretched():
    made = data.smooth_noise(4, np.random.default_rng(7), height=10, width=9)
    rng = np.random.default_rng(7)
    plain, widths = rng.random((4, 10, 9)), rng.uniform(1.0, 2.5, size=4)
    for image, source, width in zip(made, plain, widths, strict=True):
        smooth = gaussian_filter(source, width, mode="nearest")
        np.testing.assert_allclose(image, (smooth - smooth.min()) / (smooth.max() - smooth.min()), atol=1e-12)


def test_smooth_noise_in_colour_does_not_mix_the_channels():
    made = data.smooth_noise(50, np.random.default_rng(0), height=16, width=16, channels=3)
    assert made.shape == (50, 16, 16, 3)
    flat = made.reshape(50, -1, 3)
    flat = flat - flat.mean(axis=1, keepdims=True)
    across = np.mean(flat[..., 0] * flat[..., 1]) / np.mean(flat**2)
    beside = np.mean((made[:, 1:] - made[:, 1:].mean()) * (made[:, :-1] - made[:, :-1].mean())) / made.var()
    assert abs(across) < 0.1  # independent channels
    assert beside > 0.7  # neighbors in space


def test_permuted_noise_is_smoothed_where_asked(colour):
    rough = data.permuted(colour, np.random.default_rng(0))
    smooth = data.permuted(colour, np.random.default_rng(0), sigma=(1.0, 1.0))
    expected = np.stack([gaussian_filter(image, (1, 1, 0), mode="nearest") for image in rough])
    np.testing.assert_allclose(smooth, expected, atol=1e-6)
    with pytest.raises(InputError, match="sigma must be two numbers"):
        data.permuted(colour, np.random.default_rng(0), sigma=(2.0, 1.0))


def test_the_patch_has_the_size_asked_for():
    covered = data.occluded(np.zeros((20, 28, 28)), np.random.default_rng(0), size=5)
    np.testing.assert_array_equal(covered.sum(axis=(1, 2)), 25)
    np.testing.assert_array_equal(
        data.occluded(np.zeros((20, 28, 28)), np.random.default_rng(0)).sum(axis=(1, 2)), 14 * 14
    )
    with pytest.raises(InputError, match=r"size must be .*at most 28, got 29"):
        data.occluded(np.zeros((1, 28, 28)), np.random.default_rng(0), size=29)
