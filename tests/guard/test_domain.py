"""Rows that calibration cannot have seen: another unit, no probabilities, other columns; refused or called outliers."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.guard import Guard
from caveat.guard.domain import OUTSIDE, Domain


def sure(rng, n):
    confidence = rng.uniform(0.5, 1.0, size=n)
    return Outputs(predictions=[0] * n, confidence=confidence, labels=(rng.random(n) > confidence).astype(int))


@pytest.fixture
def top1():
    return sure(np.random.default_rng(0), 400)


def guard_of(calibration, **settings):
    return Guard("confidence", sets=None, risk=0.3, confidence="confidence", **settings).calibrate(calibration)


def test_a_confidence_in_percent_is_refused_and_row_and_field_are_named(top1):
    guard, percent = guard_of(top1), Outputs(predictions=[0, 0], confidence=[0.9, 97.0])
    with pytest.raises(InputError, match=r"confidence must be between 0 and 1.*got 97 at row 1\. Divide"):
        guard(percent)
    for allowed in (0.0, 1.0, float(np.nextafter(np.float32(1), np.float32(2)))):  # as a softmax in float32 gives it
        assert len(guard(Outputs(predictions=[0], confidence=[allowed]))) == 1


def test_a_confidence_of_another_scale_has_no_such_domain():
    rng = np.random.default_rng(1)
    margins = Outputs(predictions=[0] * 200, confidence=rng.normal(size=200) * 10, labels=[0] * 200)
    assert guard_of(margins).domain_.shares == ()
    assert len(guard_of(margins)(Outputs(predictions=[0], confidence=[97.0]))) == 1


@pytest.mark.parametrize("rows", [400, 20])  # 20 rows carry no threshold: nothing else would be an outlier
@pytest.mark.filterwarnings("ignore:Nothing can be promised")
def test_rows_outside_are_called_outliers_with_that_reason(top1, rows):
    guard = guard_of(top1[:rows], outside="outlier")
    outputs = Outputs(predictions=[0, 0, 0], confidence=[0.99, 97.0, -0.5])
    for fdr in (None, 0.1):
        verdicts = guard(outputs, fdr=fdr)
        assert verdicts.kind[1:].tolist() == ["outlier", "outlier"]
        assert verdicts.kind[0] != "outlier"
        assert verdicts.p_values[1] == 1 / (rows + 1)
        assert verdicts.reason(1).startswith("Not like any calibration row")
    assert guard.watch().update(guard(outputs)) is not None


def test_rows_without_the_sum_one_are_refused_also_where_nothing_was_checked(draw):
    rng = np.random.default_rng(2)
    held = draw(rng, 300)
    held = Outputs(probs=held.probs, labels=held.labels)
    percent = Outputs(probs=held.probs[:4] * [[1], [1], [100], [1]], check=False)
    with pytest.raises(InputError, match="probs must be rows of probabilities that sum to 1, got the sum 100 at row 2"):
        Guard("msp").calibrate(held)(percent)
    verdicts = Guard("msp", outside="outlier").calibrate(held)(percent)
    assert verdicts.score[2] == OUTSIDE
    assert np.flatnonzero(verdicts.score == OUTSIDE).tolist() == [2]


def test_other_columns_are_refused(draw):
    rng = np.random.default_rng(3)
    guard = Guard("energy", sets=None).calibrate(draw(rng, 200))
    for outside in ("error", "outlier"):
        guard.outside = outside
        with pytest.raises(InputError, match="logits must have 3 columns, as the calibration rows have, got 4"):
            guard(Outputs(logits=np.zeros((2, 4))))
    assert "features" not in guard.domain_.columns
    wide = Guard("gradnorm", sets=None).calibrate(draw(rng, 200, features=True))
    with pytest.raises(InputError, match="features must have 8 columns, as the calibration rows have, got 9"):
        wide(Outputs(logits=np.zeros((2, 3)), features=np.zeros((2, 9))))


def test_fields_that_the_guard_does_not_read_have_no_domain(draw):
    held = draw(np.random.default_rng(4), 200)
    held = Outputs(logits=held.logits, labels=held.labels, confidence=np.full(200, 0.5))
    domain = Guard("energy", sets=None, confidence="msp").calibrate(held).domain_
    assert domain == Domain({"classes": 3}, floats={"logits": "float64"})
    assert len(Guard("energy").calibrate(held)(Outputs(logits=held.logits[:2], confidence=[5.0, 6.0]))) == 2


def test_the_domain_is_saved_and_counts_for_the_fingerprint(top1, tmp_path):
    guard = guard_of(top1, outside="outlier")
    guard.save(tmp_path / "guard")
    loaded = Guard.load(tmp_path / "guard")
    assert loaded.domain_ == guard.domain_ == Domain({}, ("confidence",))
    assert loaded.outside == "outlier"
    marks = {loaded.fingerprint, guard_of(top1).fingerprint}
    guard.domain_ = Domain({}, ())
    assert len(marks | {guard.fingerprint}) == 3


def test_rows_are_read_in_the_float_type_of_the_calibration_rows(draw):
    held = draw(np.random.default_rng(6), 300, features=True)
    held = Outputs(features=held.features.astype(np.float32), head=held.head, labels=held.labels)
    guard = Guard("gradnorm", risk=0.5).calibrate(held)
    short = [[float(str(value)) for value in row] for row in held.features[:50]]  # as a JSON body has them
    verdicts, expected = guard(Outputs(features=short, head=held.head)), guard(held[:50])
    np.testing.assert_array_equal(verdicts.score, expected.score)
    np.testing.assert_array_equal(verdicts.doubt, expected.doubt)
    assert guard(Outputs(features=held.features[:1].astype(np.float16), head=held.head)).score.size == 1


def test_an_onnx_file_calls_rows_that_are_no_probabilities_outliers(draw, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    held = draw(np.random.default_rng(5), 300)
    held = Outputs(probs=held.probs.astype(np.float32), labels=held.labels)
    guard = Guard("msp", risk=0.5).calibrate(held)
    path = guard.export_onnx(tmp_path / "guard.onnx").path
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rows = held.probs[:6].copy()
    rows[1] *= 100
    rows[2] = [1.5, -0.5, 0]
    rows[3] = 0
    kind, score, p_value = session.run(["kind", "score", "p_value"], {"probs": rows})
    assert kind[1:4].tolist() == [2, 2, 2]
    assert (p_value[1:4] == 1 / 301).all()
    np.testing.assert_array_equal(score[[0, 4, 5]], guard(held[[0, 4, 5]]).score)
    with pytest.raises(Exception, match="probs"):  # other columns
        session.run(["kind"], {"probs": np.full((1, 4), 0.25, dtype=np.float32)})
