from __future__ import annotations

import copy
import re
from pathlib import Path

import numpy as np
import pytest

from caveat import Guard, Head, InputError, Outputs
from caveat._internal.ranges import default_rows, row_ranges
from caveat.scale import fit, open_source, sample, walks
from caveat.scores import Mahalanobis, OutlierDetector, Projected, catalogue, make

ENTRIES = {entry.name: entry for entry in catalogue()}
LEARNERS = [name for name, entry in ENTRIES.items() if entry.fits_on]
READS_ROWS = {"knn", "nnguide", "tempscale", "max_logit_pnorm"}


def plain(name):
    return ENTRIES[name].score().without_class_scores()


def test_every_score_says_how_it_is_fitted():
    here = {name for name in LEARNERS if walks(plain(name)).startswith("here: ")}
    assert here == READS_ROWS
    assert {walks(plain(name)) for name in set(LEARNERS) - here} == {"one walk", "two walks"}


def test_the_table_of_the_page_is_that_of_the_code():
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(
            r"^\| (nothing to fit|one walk over the rows|two walks|rows again, in the calling process) \| (.*) \|$",
            page,
            re.M,
        )
    )
    for title, phrase in (
        ("nothing to fit", "none"),
        ("one walk over the rows", "one walk"),
        ("two walks", "two walks"),
    ):
        listed = {name.strip() for name in rows[title].split(",")}
        if "mc_*" in listed:
            listed = listed - {"mc_*"} | {name for name in ENTRIES if name.startswith("mc_")}
        assert listed == {name for name in ENTRIES if walks(plain(name)) == phrase}
    assert all(name in rows["rows again, in the calling process"] for name in READS_ROWS)


@pytest.mark.parametrize("name", LEARNERS)
def test_one_range_gives_the_in_memory_fit_bit_for_bit(name, train, folder, learned):
    here, there = plain(name).fit(train), fit(plain(name), folder, rows_per_task=train.n)
    assert learned(here).keys() == learned(there).keys()
    for key, value in learned(here).items():
        np.testing.assert_array_equal(learned(there)[key], value, err_msg=key)


@pytest.mark.parametrize("name", LEARNERS)
def test_several_ranges_give_the_in_memory_scores_to_rounding(name, train, inlier, folder):
    here = plain(name).fit(train).score(inlier)
    there = fit(plain(name), folder, rows_per_task=37).score(inlier)
    # Sums in another order: a few roundings of 1e-16 each, which eigenvectors and kernel features enlarge.
    np.testing.assert_allclose(there, here, rtol=1e-8, atol=1e-9 * np.abs(here).max())


@pytest.mark.parametrize("name", LEARNERS)
def test_default_ranges_give_the_in_memory_fit_bit_for_bit(name, train, folder, learned, monkeypatch):
    monkeypatch.setattr("caveat._internal.ranges._TASK_BYTES", 4096)
    there = fit(ENTRIES[name].score(), folder)  # with the defaults of the catalogue
    assert len(row_ranges(train.n, default_rows(train.n, train.room() // train.n))) > 3
    here = plain(name).fit(train)
    assert learned(here).keys() == learned(there).keys()
    for key, value in learned(here).items():
        np.testing.assert_array_equal(learned(there)[key], value, err_msg=key)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_difference_to_the_in_memory_fit_is_a_rounding_of_float64(wide, dtype):
    rows = Outputs(features=wide.features.astype(dtype), labels=wide.labels)
    for name in ("mahalanobis", "vim"):
        if name == "vim":
            rows = Outputs(features=rows.features, head=Head(np.eye(3, wide.features.shape[1], dtype=dtype)))
        here, there = make(name).without_class_scores().fit(rows), fit(make(name), rows, rows_per_task=333)
        np.testing.assert_allclose(there.score(rows), here.score(rows), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["mahalanobis", "vim", "react", "gram"])
def test_threads_change_no_bit(name, train, folder, learned, monkeypatch):
    many = fit(plain(name), folder, rows_per_task=37)
    monkeypatch.setattr("caveat.scale.runner.stream_in_threads", lambda work, parts: map(work, parts(1)))
    one = fit(plain(name), folder, rows_per_task=37)
    for key, value in learned(one).items():
        np.testing.assert_array_equal(learned(many)[key], value)


def test_several_scores_share_the_walks(folder, train):
    seen = []
    scores = fit(["mahalanobis", "vim", "openmax", "msp"], folder, rows_per_task=50, progress=lambda *a: seen.append(a))
    assert [score.name for score in scores] == ["mahalanobis", "vim", "openmax", "msp"]
    assert {what for what, _, _ in seen} == {"fitting", "fitting, second walk"}
    assert seen[-1] == ("fitting, second walk", 5, 5)
    alone = fit("vim", folder, rows_per_task=50)
    np.testing.assert_array_equal(scores[1].score(train), alone.score(train))


def test_classes_are_counted_where_only_labels_tell(wide):
    labels = np.where(np.arange(wide.n) == wide.n - 1, 4, wide.labels % 4)  # the last class is in the last range alone
    rows = Outputs(features=wide.features, labels=labels)
    score = fit("ctm_mean", rows, rows_per_task=1000)
    assert score.n_classes_ == 5
    np.testing.assert_allclose(score.score(rows), make("ctm_mean").fit(rows).score(rows), atol=1e-5)


def test_a_score_whose_class_scores_need_all_rows_is_spared_them(train, inlier):
    score = fit(Mahalanobis(), train, rows_per_task=37)
    assert score.class_rank == 0
    np.testing.assert_allclose(score.score(inlier), Mahalanobis().fit(train).score(inlier), rtol=1e-9)


def test_what_needs_all_rows_says_so_before_a_walk(train):
    score = Projected(make("energy"), "class")
    with pytest.raises(InputError, match=r"not fitted by row ranges.* it on a sample"):
        fit(score, train, progress=lambda *_: pytest.fail("rows were read"))
    assert walks(score).startswith("all rows")


def test_an_outlier_detector_says_that_it_needs_all_rows(train):
    from sklearn.svm import OneClassSVM

    with pytest.raises(InputError, match="hands all training rows to another library"):
        fit(OutlierDetector(OneClassSVM()), train)


def test_the_bank_of_a_guard_is_read_by_ranges(folder, train, inlier):
    seen = []
    there = fit(Guard("knn"), folder, rows_per_task=37, progress=lambda *a: seen.append(a)).calibrate(inlier)
    np.testing.assert_array_equal(there(inlier).score, Guard("knn").fit(train).calibrate(inlier)(inlier).score)
    assert seen[-1][0] == "fingerprints"
    assert "fitting knn, which keeps the training rows as its bank" in {what for what, _, _ in seen}


def test_knn_is_fitted_on_a_sample(train, inlier):
    score = make("knn", k=3).fit(sample(open_source(train), 100))
    assert score.score(inlier).shape == (inlier.n,)


def test_a_projection_of_logit_scores_is_fitted_by_ranges(train, inlier):
    here = Projected(make("energy"), "global").fit(train).score(inlier)
    there = fit(Projected(make("energy"), "global"), train, rows_per_task=37).score(inlier)
    np.testing.assert_allclose(there, here, rtol=1e-9)


def test_a_missing_field_is_said_before_a_walk():
    with pytest.raises(InputError, match=r"ViM learns from train.logits"):
        fit("vim", Outputs(features=np.ones((5, 2)), labels=[0, 1, 0, 1, 0]))


def test_a_guard_is_fitted_and_makes_the_promises_of_one_in_memory(folder, train, inlier, tmp_path):
    settings = {"score": "mahalanobis", "risk": 0.9}
    there = fit(Guard(**settings), folder, rows_per_task=50).calibrate(inlier, date="2026-11-18")
    here = Guard(**settings).fit(train).calibrate(inlier, date="2026-11-18")
    np.testing.assert_allclose(there.threshold_, here.threshold_, rtol=1e-9)
    assert [str(promise) for promise in there.promises] == [str(promise) for promise in here.promises]
    there.save(tmp_path / "guard")
    assert Guard.load(tmp_path / "guard").fingerprint == there.fingerprint


def test_the_fingerprint_of_training_rows_sees_every_range(train):
    changed = train.features.copy()
    changed[-1, -1] += 1
    other = Outputs(features=changed, labels=train.labels)
    same = Outputs(features=train.features, labels=train.labels)
    marks = [fit(Guard("mahalanobis", sets=None), rows, rows_per_task=100).splits_["train"] for rows in
             (same, copy.deepcopy(same), other)]  # fmt: skip
    assert marks[0] == marks[1]
    assert marks[0]["sha256"]["features"] != marks[2]["sha256"]["features"]
    assert marks[0]["sha256"]["labels"] == marks[2]["sha256"]["labels"]


def test_a_guard_that_was_calibrated_must_be_calibrated_again(train, inlier):
    guard = fit(Guard("mahalanobis", sets=None), train).calibrate(inlier)
    with pytest.raises(AttributeError, match="no thresholds yet"):
        fit(guard, train)(inlier)
