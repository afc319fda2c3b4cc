from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.networks import fit_classifier  # noqa: E402
from caveat_lab.networks.training import Augmentation  # noqa: E402


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_flip_mirrors_about_half_of_the_images_and_changes_nothing_else():
    images = torch.arange(6.0).reshape(1, 1, 2, 3).repeat(2000, 1, 1, 1)
    changed = Augmentation(flip=True)(images, generator())
    mirrored = (changed == images.flip(3)).all(dim=(1, 2, 3))
    same = (changed == images).all(dim=(1, 2, 3))
    assert (mirrored ^ same).all()
    assert abs(mirrored.float().mean().item() - 0.5) < 4 * 0.5 / 2000**0.5


def test_a_crop_moves_every_image_by_itself_within_the_padding():
    images = torch.zeros(3000, 2, 5, 5)
    images[:, :, 2, 2] = 1  # the middle: no move by up to 2 loses it
    changed = Augmentation(crop=2)(images, generator())
    assert changed.shape == images.shape
    assert (changed[:, 0] == changed[:, 1]).all()  # both channels alike
    assert (changed.sum(dim=(2, 3)) == 1).all()
    counts = changed[:, 0].sum(dim=0)  # 25 places, each with chance 1/25
    assert (counts - 120).abs().max() < 5 * 120**0.5


def test_nothing_asked_is_nothing_changed():
    images = torch.rand(4, 1, 3, 3)
    assert torch.equal(Augmentation()(images, generator()), images)


def test_rows_that_are_not_images_are_refused():
    with pytest.raises(InputError, match="needs images"):
        Augmentation(flip=True)(torch.zeros(4, 3), generator())


def stripes(n=96):
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    images = rng.normal(0, 0.3, size=(n, 1, 8, 8)).astype(np.float32)
    images[:, :, 3:5] += 2 * labels[:, None, None, None]
    return images, labels


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


def test_a_killed_run_with_augmentation_resumes_to_the_same_weights(tmp_path, monkeypatch):
    how = {
        "epochs": 4,
        "batch_size": 16,
        "learning_rate": 0.01,
        "augment": Augmentation(flip=True, crop=1),
        "threads": 1,
    }
    whole = fit_classifier(network(), stripes(), **how)
    calls = 0
    apply = Augmentation.__call__

    def killed(self, images, chance):
        nonlocal calls
        calls += 1
        if calls == 9:
            raise KeyboardInterrupt
        return apply(self, images, chance)

    monkeypatch.setattr(Augmentation, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        fit_classifier(network(), stripes(), checkpoint=tmp_path, checkpoint_seconds=0, **how)
    monkeypatch.setattr(Augmentation, "__call__", apply)
    resumed = fit_classifier(network(), stripes(), checkpoint=tmp_path, checkpoint_seconds=0, **how)
    assert resumed.resumed
    for one, other in zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    other = how | {"augment": None}
    with pytest.raises(InputError, match="another run: augment"):
        fit_classifier(network(), stripes(), checkpoint=tmp_path, **other)
    without = fit_classifier(network(), stripes(), **other)
    assert not torch.equal(without.model[1].weight, whole.model[1].weight)
