"""``limit`` in a training plan and in what certifies its model: drawn with the seed, every class in its share."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from caveat_lab.data import Images
from caveat_lab.experiments.certified_images import held_out
from caveat_lab.experiments.train_plan import Source
from caveat_lab.experiments.training import _outliers, load_images


@pytest.fixture
def images(tmp_path):
    path = tmp_path / "sorted.npz"
    x = np.arange(200, dtype=np.uint8)[:, None, None] * np.ones((1, 6, 6), np.uint8)
    np.savez(path, x=x, y=np.repeat([0, 1, 2, 3], [100, 60, 30, 10]))
    return str(path)


def shares(labels, n):
    return np.abs(np.bincount(labels, minlength=4) - n * np.array([0.5, 0.3, 0.15, 0.05])).max()


def test_training_images(images):
    one, again, other = (load_images(Source(path=images, limit=40), seed=seed) for seed in (1, 1, 2))
    assert shares(one.labels, 40) < 1
    np.testing.assert_array_equal(one.pixels, again.pixels)
    assert (one.pixels != other.pixels).any()
    assert one.pixels[:, 0, 0].tolist() != list(range(40))


@pytest.mark.parametrize("made", ["", "inverted", "permuted"])
def test_outliers_of_a_plan(images, made):
    source = Source(path="" if made else images, made=made, limit=40)
    whole = load_images(Source(path=images))
    parts = {"validation": whole, "test": whole}
    one, again = (_outliers(source, parts, (5, 0)) for _ in range(2))
    np.testing.assert_array_equal(one, again)
    values = np.sort(one.reshape(40, -1).max(axis=1).astype(float))
    values = values if values.max() > 1 else values * 255
    rows = np.round(255 - values if made == "inverted" else values).astype(int)
    assert shares(parts["test"].labels[rows], 40) < 1
    assert sorted(rows) != list(range(40))


def test_what_a_limit_left_out_is_held_out(images, tmp_path):
    from caveat._internal.files import write_json

    whole = load_images(Source(path=images))
    kept = load_images(Source(path=images, limit=40), seed=7)
    plan = {"train": {"path": images, "limit": 40}, "test": None, "validation": 0.1, "seed": 7}
    write_json(tmp_path / "plan.json", plan)
    rest = held_out(tmp_path, images, whole)
    assert isinstance(rest, Images)
    seen = set(kept.pixels[:, 0, 0].tolist())
    assert len(rest) == 160
    assert seen.isdisjoint(rest.pixels[:, 0, 0].tolist())
