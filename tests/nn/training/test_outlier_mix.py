import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

torch = pytest.importorskip("torch")

from caveat import InputError  # noqa: E402
from caveat_lab.networks.training.outlier_mix import (  # noqa: E402
    OutlierMix,
    gaussian_matrices,
    permuted_pixels,
    shuffled_blocks,
    smooth_noise,
    uniform_noise,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("size", [3, 8, 28])
def test_the_filter_is_that_of_scipy(size):
    sigma = torch.tensor([0.3, 1.0, 1.7, 2.5], dtype=torch.float64)
    lines = np.random.default_rng(0).random((5, size))
    for matrix, width in zip(gaussian_matrices(sigma, size), sigma, strict=True):
        np.testing.assert_allclose(lines @ matrix.numpy().T, gaussian_filter1d(lines, float(width)), atol=1e-12)


def test_smooth_noise_is_smooth_and_fills_the_range():
    smooth, rough = (make(50, (1, 28, 28), seeded()) for make in (smooth_noise, uniform_noise))
    assert smooth.amin(dim=(1, 2, 3)).eq(0).all()
    assert torch.allclose(smooth.amax(dim=(1, 2, 3)), torch.ones(50))
    # Independent neighbors differ by 1/3 on average; filtered ones by much less.
    assert float((rough[..., 1:] - rough[..., :-1]).abs().mean()) == pytest.approx(1 / 3, abs=0.01)
    assert (smooth[..., 1:] - smooth[..., :-1]).abs().mean() < 0.12


def test_permuting_keeps_the_pixels_of_each_image_and_its_channels_together():
    images = torch.arange(2 * 3 * 4 * 4, dtype=torch.float32).view(2, 3, 4, 4)
    moved = permuted_pixels(images, seeded())
    assert not torch.equal(moved, images)
    for before, after in zip(images.flatten(2), moved.flatten(2), strict=True):
        columns = {tuple(column.tolist()) for column in before.T}
        assert {tuple(column.tolist()) for column in after.T} == columns
    # Each image has its own random order, independent of the others.
    assert not torch.equal(moved[1] - 48, moved[0])


def test_blocks_are_moved_whole():
    # 4 x 4 images in blocks of 2: the value of a pixel names its block, so every block must stay constant.
    images = torch.tensor([[0.0, 1.0], [2.0, 3.0]]).repeat_interleave(2, 0).repeat_interleave(2, 1)
    images = images[None, None].repeat(20, 1, 1, 1)
    moved = shuffled_blocks(images, seeded(), block=2)
    corners = moved[:, 0, ::2, ::2]
    assert torch.equal(corners.repeat_interleave(2, 1).repeat_interleave(2, 2), moved[:, 0])
    assert torch.equal(corners.flatten(1).sort(dim=1).values, torch.arange(4.0).expand(20, 4))
    assert len({tuple(row.tolist()) for row in corners.flatten(1)}) > 5


def test_pixels_inside_a_block_keep_their_places():
    image = torch.rand(1, 2, 8, 8)
    moved = shuffled_blocks(image, seeded())
    blocks = {
        tuple(image[0, :, i : i + 2, j : j + 2].flatten().tolist()) for i in range(0, 8, 2) for j in range(0, 8, 2)
    }
    for i in range(0, 8, 2):
        for j in range(0, 8, 2):
            assert tuple(moved[0, :, i : i + 2, j : j + 2].flatten().tolist()) in blocks


def test_a_block_that_does_not_fit():
    with pytest.raises(InputError, match="block must divide the height 8 and the width 8"):
        shuffled_blocks(torch.rand(1, 1, 8, 8), seeded(), block=3)


@pytest.mark.parametrize("n", [0, 1, 6, 130, 128])
def test_the_mix_has_the_number_asked_for_in_even_shares(n):
    mix = OutlierMix(torch.full((5, 1, 8, 8), 2.0))  # noise is never 2, so rearranged images are recognized
    made = mix(n, seeded())
    assert made.shape == (n, 1, 8, 8)
    assert abs(int((made == 2).all(dim=(1, 2, 3)).sum()) - n / 2) <= 1


def test_the_mix_is_seeded():
    mix = OutlierMix(torch.rand(10, 1, 8, 8))
    assert torch.equal(mix(9, seeded(3)), mix(9, seeded(3)))
    assert not torch.equal(mix(9, seeded(3)), mix(9, seeded(4)))


def test_a_wrong_mix_is_explained():
    with pytest.raises(InputError, match="Did you mean 'permuted'"):
        OutlierMix(torch.rand(2, 1, 8, 8), kinds=["permutation"])
    with pytest.raises(InputError, match="at least one entry"):
        OutlierMix(torch.rand(2, 1, 8, 8), kinds=[])
    with pytest.raises(InputError, match=r"\(N, channels, height, width\), got \(2, 64\)"):
        OutlierMix(torch.rand(2, 64))
