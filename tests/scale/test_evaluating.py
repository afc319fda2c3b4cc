from __future__ import annotations

import numpy as np
import pytest

import caveat
from caveat import InputError, Outputs
from caveat.evaluation.records import Data, Detection, ModelFacts, Scores, Selective
from caveat.scale import evaluate

NAMES = ["msp", "mahalanobis", "vim", "react", "tempscale", "openmax"]


@pytest.fixture
def parts(train, inlier, outlier, make_outputs):
    return {"train": train, "calibration": make_outputs(seed=8, n=200), "inlier": inlier, "outliers": {"far": outlier}}


@pytest.mark.parametrize("calibrated", [True, False])
def test_an_evaluation_of_sources_is_the_one_in_memory(parts, tmp_path, calibrated):
    if not calibrated:
        del parts["calibration"]
    expected = caveat.evaluate(**parts, scores=NAMES)
    folders = {}
    for role, part in parts.items():
        for name, outputs in (part if isinstance(part, dict) else {role: part}).items():
            outputs.save(tmp_path / name)
        folders[role] = {name: tmp_path / name for name in part} if isinstance(part, dict) else tmp_path / role
    result = evaluate(**folders, scores=NAMES, rows_per_task=37)
    assert str(result.decision) == str(expected.decision)
    assert result.ranking.methods == expected.ranking.methods
    assert {(d.role, d.n, d.n_classes) for d in result.of(Data)} == {(d.role, d.n, d.n_classes) for d in
                                                                     expected.of(Data)}  # fmt: skip
    for kind in (Scores, Detection, Selective, ModelFacts):
        assert len(result.of(kind)) == len(expected.of(kind)) > 0
    for here, there in zip(result.of(Scores), expected.of(Scores), strict=True):
        assert (here.method, here.role) == (there.method, there.role)
        np.testing.assert_allclose(here.values, there.values, rtol=1e-8, atol=1e-10)


def test_data_records_describe_the_sources(parts):
    result = evaluate(**parts, scores=["msp"])
    fields = {data.role: data.fields for data in result.of(Data)}
    assert "features 240x12" in fields["train"]
    assert "layer.conv" in fields["inlier"]


def test_by_default_scores_that_need_all_rows_are_left_out_with_the_reason(parts):
    result = evaluate(**parts)
    assert set(result.left_out) >= {"knn", "nnguide"}
    assert "bank" in result.left_out["knn"]
    measured = {str(scores.method) for scores in result.of(Scores)}
    assert {"mahalanobis", "tempscale", "gram", "mc_entropy"} <= measured


def test_a_bank_is_read_if_it_is_named_and_left_out_else(parts):
    results = (run(**parts, scores=["knn"]) for run in (evaluate, caveat.evaluate))
    values = [{scores.role: scores.values for scores in result.of(Scores)} for result in results]
    np.testing.assert_equal(values[0], values[1])


def test_logits_are_made_from_features_and_head(parts):
    slim = {role: {k: _without_logits(v) for k, v in part.items()} if isinstance(part, dict) else _without_logits(part)
            for role, part in parts.items()}  # fmt: skip
    result, expected = (run(**slim, scores=["energy", "react"]) for run in (evaluate, caveat.evaluate))
    assert str(result.decision) == str(expected.decision)
    assert result.accuracy == expected.accuracy


def _without_logits(outputs):
    return Outputs(features=outputs.features, labels=outputs.labels, head=outputs.head)


def test_rows_in_two_roles_are_an_error(parts):
    with pytest.raises(InputError, match="calibration and inlier are the same"):
        evaluate(**parts | {"calibration": parts["inlier"]}, scores=["msp"])
