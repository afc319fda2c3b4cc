from __future__ import annotations

import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from caveat import InputError, NotFittedError, Outputs, conformal
from caveat.scale import fit, p_values, score, select_outliers
from caveat.scale.scoring import Column
from caveat.scores import Energy, Mahalanobis, catalogue, detector


@pytest.mark.parametrize("rows_per_task", [1, 31, 1000])
def test_a_file_of_scores_is_that_of_the_outputs(train, folder, tmp_path, rows_per_task):
    values = score(Energy(), folder, out=tmp_path / "scores.npy", rows_per_task=rows_per_task)
    np.testing.assert_allclose(values, Energy().score(train), rtol=1e-12)
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), values)
    np.testing.assert_array_equal(score(Energy(), folder, rows_per_task=rows_per_task), values)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scores.npy", "train"]


@pytest.mark.parametrize("name", [entry.name for entry in catalogue() if entry.name != "nnguide"])
def test_every_score_reads_what_it_needs_and_no_more(name, train, inlier, tmp_path):
    inlier.save(tmp_path / "rows")
    made = next(entry for entry in catalogue() if entry.name == name).score().without_class_scores().fit(train)
    np.testing.assert_allclose(score(made, tmp_path / "rows", rows_per_task=64), made.score(inlier), rtol=1e-8,
                               atol=1e-10)  # fmt: skip


def test_p_values_are_those_of_all_rows_and_the_histogram_counts_them(train, inlier, tmp_path):
    held = Energy().score(train)
    expected = conformal.p_values(calibration=held, test=Energy().score(inlier))
    result = p_values(Energy(), inlier, calibration=held, out=tmp_path / "p.npy", rows_per_task=17)
    np.testing.assert_array_equal(result.values, expected)
    assert result.histogram.m == inlier.n
    np.testing.assert_array_equal(p_values(Energy(), inlier, calibration=held, rows_per_task=40).values, expected)


@pytest.mark.parametrize("method", ["bh", "storey"])
@pytest.mark.parametrize("to_file", [True, False])
def test_the_selection_is_that_of_all_p_values_together(method, to_file, tmp_path):
    rng = np.random.default_rng(3)
    rows = Outputs(confidence=-np.concatenate([rng.normal(size=900), rng.normal(size=100) + 4]))
    held = rng.normal(size=2000)
    made = next(entry for entry in catalogue() if entry.name == "confidence").score()
    p = conformal.p_values(calibration=held, test=-rows.confidence)
    expected = conformal.select_outliers(p, 0.1, method=method)
    out = tmp_path / "selected.npy" if to_file else None
    chosen = select_outliers(made, rows, calibration=held, q=0.1, method=method, out=out, rows_per_task=77)
    assert expected.sum() > 20
    np.testing.assert_array_equal(chosen, expected)
    assert len(list(tmp_path.iterdir())) == to_file  # the p-values in between are gone


def test_what_cannot_be_scored_is_said_before_any_work(train, tmp_path):
    with pytest.raises(NotFittedError, match="Mahalanobis has not seen training data"):
        score(Mahalanobis(), train, out=tmp_path / "s.npy")
    narrow = Outputs(features=train.features[:, :3])
    with pytest.raises(InputError, match="12 columns as in training, got 3"):
        score(fit("mahalanobis", train), narrow, out=tmp_path / "s.npy")
    with pytest.raises(InputError, match=r"out must end in .npy"):
        score(Energy(), train, out=tmp_path / "s.csv")
    with pytest.raises(InputError, match="q must be strictly between 0 and 1"):
        select_outliers(Energy(), train, calibration=[1.0], q=2)
    with pytest.raises(InputError, match="calibration has NaN"):
        p_values(Energy(), train, calibration=[np.nan])
    assert not list(tmp_path.iterdir())


def test_a_detector_of_whole_batches_says_that_it_needs_one(train):
    made = detector("cof").fit(train)
    with pytest.raises(InputError, match="scores a row against the whole batch"):
        score(made, train)


def test_a_bad_row_leaves_no_file(tmp_path):
    logits = np.zeros((100, 2))
    logits[90, 0] = np.inf
    np.save(tmp_path / "logits.npy", logits)
    with pytest.raises(InputError, match="rows counted from 80: logits has an infinite value, first at row 10"):
        score(Energy(), tmp_path, out=tmp_path / "out" / "s.npy", rows_per_task=40)
    assert not list((tmp_path / "out").iterdir())


def test_writing_a_slice_twice_changes_nothing(tmp_path):
    column = Column(str(tmp_path / "c.npy"), 10, "<i4", 3)
    column.create()
    rows = np.arange(30).reshape(10, 3)
    for start, stop in ((4, 10), (0, 4), (2, 6), (0, 4)):
        column.write(start, rows[start:stop])
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), rows)


def test_scoring_in_threads_leaves_the_filters_of_warnings_as_they_were(train):
    before = list(warnings.filters)
    with threadpool_limits(4, user_api="blas"):
        score(Energy(), train, rows_per_task=2)
    assert warnings.filters == before
