from __future__ import annotations

import json

import numpy as np
import pytest

from caveat import Guard, InputError, NotFittedError
from caveat.guard.verdicts import KINDS
from caveat.scale import predict


@pytest.fixture
def guard(train, inlier):
    return Guard(["mahalanobis", "energy"], risk=0.9, false_alarm=0.1).fit(train).calibrate(inlier)


@pytest.mark.parametrize("fdr", [None, 0.2])
def test_verdicts_of_a_source_are_those_of_the_whole_batch(guard, outlier, tmp_path, fdr):
    outlier.save(tmp_path / "far")
    expected = guard(outlier, fdr=fdr)
    result = predict(guard, tmp_path / "far", out=tmp_path / "verdicts", fdr=fdr, rows_per_task=23)
    assert result.counts == expected.counts
    assert expected.counts["outlier"] > 0
    np.testing.assert_array_equal(np.array(KINDS)[result.column("kind")], expected.kind)
    np.testing.assert_allclose(result.column("score"), expected.score, rtol=1e-9)
    np.testing.assert_allclose(result.column("p_value"), expected.p_values, rtol=1e-12)
    np.testing.assert_allclose(result.column("conditional_p_value"), expected.conditional_p_values, rtol=1e-12)
    np.testing.assert_array_equal(result.column("prediction"), expected.predictions)
    np.testing.assert_array_equal(result.column("set_size"), expected.sets.sizes)
    np.testing.assert_array_equal(result.members(5, 50), expected.sets.member[5:50])
    page = json.loads((tmp_path / "verdicts" / "verdicts.json").read_text())
    assert (page["n"], page["fdr"], page["guard"]) == (outlier.n, fdr, guard.fingerprint)


def test_a_folder_that_is_not_empty_is_left_alone(guard, outlier, tmp_path):
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(InputError, match="not an empty folder"):
        predict(guard, outlier, out=tmp_path)
    (tmp_path / "new").mkdir()
    assert predict(guard, outlier, out=tmp_path / "new").n == outlier.n


def test_a_guard_without_thresholds_is_said(outlier, tmp_path):
    with pytest.raises(NotFittedError, match="no thresholds yet"):
        predict(Guard(), outlier, out=tmp_path / "v")
    with pytest.raises(InputError, match="a calibrated Guard"):
        predict("energy", outlier, out=tmp_path / "v")


def test_a_cut_is_the_selection_of_a_batch_by_parts(guard, outlier):
    whole = guard(outlier, fdr=0.2)
    cut = whole.p_values[whole.outliers].max()
    parts = [guard(outlier[rows], fdr=0.2, cut=cut).outliers for rows in (slice(0, 50), slice(50, None))]
    np.testing.assert_array_equal(np.concatenate(parts), whole.outliers)
