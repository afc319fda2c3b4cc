from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError
from caveat.demo.images import stratified_rows, unit
from caveat_lab import data


def test_inputs_are_floats_with_channels_first():
    pixels = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    read = data.Images(pixels, np.array([0, 1])).inputs()
    assert read.shape == (2, 3, 4, 5)
    assert read.dtype == np.float32
    assert read[1, 2, 3, 4] == np.float32(119 / 255)  # the last byte: 2 * 4 * 5 * 3 - 1
    assert data.Images(np.ones((2, 4, 5)), np.array([0, 1])).inputs().shape == (2, 1, 4, 5)


def test_floats_stay_and_integers_are_refused():
    half = np.full((1, 2, 2), 0.5)
    assert unit(half) is half
    with pytest.raises(InputError, match="bytes or floats from 0 to 1, got dtype int64"):
        unit(np.zeros((1, 2, 2), dtype=np.int64))


def test_rows_and_labels_must_agree():
    with pytest.raises(InputError, match=r"one label per image, got \(2, 4, 4\) and \(3,\)"):
        data.Images(np.zeros((2, 4, 4)), np.zeros(3, dtype=np.intp))


def test_a_selection_keeps_the_names_of_the_classes():
    images = data.Images(np.zeros((2, 4, 4)), np.array([0, 1]), ("cat", "dog"))
    assert images[1:].classes == ("cat", "dog")
    assert images[np.array([False, True])].labels.tolist() == [1]


@pytest.mark.parametrize("channels", [(), (3,)])
def test_images_come_one_after_the_other(channels):
    images = data.Images(np.random.default_rng(0).random((3, 4, 4, *channels)), np.array([5, 6, 7]))
    each = list(images)
    assert [len(one) for one in each] == [1, 1, 1]
    np.testing.assert_array_equal(np.concatenate([one.pixels for one in each]), images.pixels)
    assert images[-1].labels.tolist() == [7]
    with pytest.raises(InputError, match="row 3 is outside images with n = 3"):
        images[3]


def test_lists_will_do_and_wrong_shapes_get_one_sentence():
    assert data.Images([[[0.5]]], [0]).inputs().shape == (1, 1, 1, 1)
    for labels in (0, [[0]]):
        with pytest.raises(InputError, match="one label per image"):
            data.Images(np.zeros((1, 2, 2)), labels)


@pytest.mark.parametrize("n", [1, 5, 10, 37, 100, 150])
def test_a_stratified_sample_has_every_class_in_its_share(n):
    labels = np.repeat([3, 7, 9, 11], [40, 30, 20, 10])
    rows = stratified_rows(labels, n, np.random.default_rng(0))
    assert rows.size == np.unique(rows).size == min(n, 100)
    assert (np.diff(rows) > 0).all()
    for label, share in zip([3, 7, 9, 11], [0.4, 0.3, 0.2, 0.1], strict=True):
        assert abs((labels[rows] == label).sum() - min(n, 100) * share) < 1
    np.testing.assert_array_equal(rows, stratified_rows(labels, n, np.random.default_rng(0)))


def test_every_row_of_a_stratified_sample_is_drawn_equally_often():
    labels, counts, turns = np.repeat(np.arange(10), 6), np.zeros(60), 4000
    for seed in range(turns):  # fewer rows than classes: chance decides which classes
        counts[stratified_rows(labels, 7, np.random.default_rng(seed))] += 1
    share = 7 / 60
    assert np.abs(counts / turns - share).max() < 4.5 * np.sqrt(share * (1 - share) / turns)
