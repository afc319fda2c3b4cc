from __future__ import annotations

import pytest

from caveat import InputError

torch = pytest.importorskip("torch")

from caveat.nn import ease  # noqa: E402


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def images():
    return torch.rand(200, 3, 6, 6, generator=generator(1))


def test_noise_has_the_deviation_asked_for(images):
    change = ease.GaussianNoise(0.07)(images, generator()) - images
    n = change.numel()
    assert abs(change.mean().item()) < 4 * 0.07 / n**0.5
    assert change.std().item() == pytest.approx(0.07, rel=4 / (2 * n) ** 0.5)


def test_brightness_is_one_factor_for_each_image(images):
    factors = (ease.Brightness(0.3)(images, generator()) / images).flatten(1)
    assert (factors.max(dim=1).values - factors.min(dim=1).values).max() < 1e-5
    assert 0.7 <= factors.min() < 0.75
    assert 1.25 < factors.max() <= 1.3


def test_contrast_moves_towards_the_mean_grey_by_hand():
    # Grey of the first pixel 0.299, of the second 0; their mean 0.1495. A factor f gives f x + (1 - f) 0.1495.
    image = torch.zeros(1, 3, 1, 2)
    image[0, 0, 0, 0] = 1.0
    changed = ease.Contrast(0.5)(image, generator())
    f = ((changed[0, 1, 0, 0] - 0.1495) / (0 - 0.1495)).item()
    assert 0.5 <= f <= 1.5
    assert changed[0, 0, 0, 0].item() == pytest.approx(f + (1 - f) * 0.1495, abs=1e-6)
    grey = torch.tensor([[[[0.0, 0.5]]]])
    one = ease.Contrast(0.5)(grey, generator())
    assert one.mean().item() == pytest.approx(0.25, abs=1e-6)  # grey images keep their mean
    assert (one[..., 1] - one[..., 0]).item() == pytest.approx(0.5 * f, abs=1e-6)  # and the factor is the same


def test_saturation_keeps_the_grey_image(images):
    weights = torch.tensor([0.299, 0.587, 0.114]).reshape(1, 3, 1, 1)
    changed = ease.Saturation(0.4)(images, generator())
    torch.testing.assert_close((changed * weights).sum(dim=1), (images * weights).sum(dim=1), atol=1e-5, rtol=0)
    assert (changed - images).abs().max() > 0.01
    with pytest.raises(InputError, match=r"Saturation needs color images .* got \(2, 1, 4, 4\)"):
        ease.Saturation()(torch.zeros(2, 1, 4, 4), generator())


@pytest.mark.parametrize("made", [ease.GaussianNoise, ease.Brightness, ease.Contrast, ease.Saturation])
def test_copies_follow_the_generator_and_leave_the_input(made, images):
    before = images.clone()
    torch.testing.assert_close(made()(images, generator(3)), made()(images, generator(3)), atol=0, rtol=0)
    assert (made()(images, generator(3)) - made()(images, generator(4))).abs().max() > 0
    assert torch.equal(images, before)
    with pytest.raises(InputError, match="must be a positive number"):
        made(0.0)
