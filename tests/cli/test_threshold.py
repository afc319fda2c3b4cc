from __future__ import annotations

import json

import pytest

from caveat import Outputs
from caveat.conformal import threshold_for
from caveat.scores import make


def test_prints_the_threshold_and_its_promise_and_nothing_else(run, files):
    held = Outputs.load(files / "test.npz")
    code, out, err = run(
        "threshold", files / "test.npz", "--score", "energy", "--false-alarm", "0.1", "--delta", "0.01"
    )
    assert (code, err) == (0, "")
    rule, promise = out.splitlines()
    assert rule.startswith("outlier: energy >= ")
    expected = threshold_for(make("energy").rounded(held), 0.1, 0.01)
    assert float(rule.rsplit(" ", 1)[1]) == pytest.approx(expected, rel=1e-8)
    assert "10 % of in-distribution" in promise
    assert "99 % confidence" in promise


def test_a_risk_adds_the_abstain_threshold(run, files):
    code, out, _ = run("threshold", files / "test.npz", "--risk", "0.3", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["confidence_score"] == "msp"
    assert [promise["what"] for promise in found["promises"]] == ["false alarms", "errors among the accepted"]
    code, out, _ = run("threshold", files / "test.npz", "--risk", "0.3")
    assert len(out.splitlines()) == 4


def test_too_few_rows_say_what_it_takes(run, files):
    Outputs.load(files / "test.npz")[:10].save(files / "few.npz")
    code, out, _ = run("threshold", files / "few.npz")
    assert code == 0
    assert "energy has no threshold: rejects nothing" in out
    assert "It takes 59 calibration rows; there are 10." in out
    assert json.loads(run("threshold", files / "few.npz", "--json")[1])["threshold"] is None


def test_a_score_that_learns_asks_for_training_rows(run, files):
    code, _, err = run("threshold", files / "test.npz", "--score", "mahalanobis")
    assert code == 2
    assert "--train" in err
    assert run("threshold", files / "test.npz", "--score", "mahalanobis", "--train", files / "train.npz")[0] == 0
    code, _, err = run("threshold", files / "test.npz", "--score", "enrgy")
    assert (code, "energy" in err) == (2, True)
