from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scale import Source, open_source, sample
from caveat.scale.sources import OutputsSource, joined, stored_keys


def test_outputs_and_npz_files_are_sources(tmp_path, train):
    train.save(tmp_path / "train.npz")
    for source in (open_source(train), open_source(tmp_path / "train.npz")):
        assert isinstance(source, Source)
        assert source.n == train.n
        np.testing.assert_array_equal(source.read(10, 20).features, train.features[10:20])
    assert open_source(source) is source


@pytest.mark.parametrize("thing", [7, None, [1, 2]])
def test_what_is_no_source_is_said(thing):
    with pytest.raises(InputError, match="source must be a path, Outputs"):
        open_source(thing)


def test_a_missing_path_is_said(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        open_source(tmp_path / "nowhere")


def test_derived_fields_name_the_arrays_they_are_made_from():
    assert stored_keys(["features", "labels", "layer.a"], ["predictions"]) == ["features"]
    assert stored_keys(["features", "labels", "layer.a"], ["layers", "correct"]) == ["features", "labels", "layer.a"]
    assert stored_keys(["labels", "logits", "features"], ["probs"]) == ["logits"]
    assert stored_keys(["labels"], ["head"]) == ["labels"]  # something must count the rows


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200, 990, 1000, 5000])
def test_a_sample_has_as_many_rows_as_asked_without_repeats_in_order(rows):
    drawn = sample(Outputs(confidence=np.arange(1000.0)), rows).confidence
    assert drawn.size == min(rows, 1000)
    assert (np.diff(drawn) > 0).all()


def test_a_sample_depends_on_the_seed_alone():
    source = OutputsSource(Outputs(confidence=np.arange(10_000.0)))
    np.testing.assert_array_equal(sample(source, 300, seed=1).confidence, sample(source, 300, seed=1).confidence)
    assert (sample(source, 300, seed=1).confidence != sample(source, 300, seed=2).confidence).any()


def test_every_patch_is_drawn_equally_often():
    source, counts, trials = OutputsSource(Outputs(confidence=np.arange(640.0))), np.zeros(10), 2000
    for seed in range(trials):
        counts[np.unique(sample(source, 192, seed=seed).confidence // 64).astype(int)] += 1
    # Three patches of ten: each is drawn with probability 3/10 (four standard errors).
    assert (np.abs(counts / trials - 0.3) < 4 * np.sqrt(0.3 * 0.7 / trials)).all()


def test_joined_rows_are_those_of_the_parts(train):
    whole = joined([train[:50], train[50:]])
    for key, array in train.arrays().items():
        np.testing.assert_array_equal(whole.arrays()[key], array)
