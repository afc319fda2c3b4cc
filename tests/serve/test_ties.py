"""Over HTTP a kind of input has one score, alone and among others, with other kernels than those that calibrated."""

from __future__ import annotations

import numpy as np
import pytest
from tests.serve.conftest import npz, serving

from caveat import Guard, Outputs

KINDS, SHARES = 10, np.append(np.full(9, 0.7 / 9), 0.3)  # the strangest kind is three tenths of the traffic


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(11)
    kinds = rng.normal(size=(KINDS, 16)).astype(np.float32)
    kinds[-1] *= 3
    return kinds, rng.integers(2, size=KINDS)


def test_a_quiet_stream_of_few_kinds_of_input_stays_quiet(world, tmp_path):
    kinds, labels = world
    rng = np.random.default_rng(12)

    def rows(n):
        which = rng.choice(KINDS, p=SHARES, size=n)
        return Outputs(features=kinds[which], labels=labels[which])

    guard = Guard("mahalanobis", sets=None).fit(rows(400)).calibrate(rows(300), date="2026-11-19")
    guard.save(tmp_path / "guard")
    expected = guard(Outputs(features=kinds))
    stream, place = rng.choice(KINDS, p=SHARES, size=500), 0
    environment = {"OPENBLAS_CORETYPE": "Nehalem", "OMP_NUM_THREADS": "2"}
    with serving(tmp_path / "guard", tmp_path / "audit.sqlite", environment=environment) as service:
        while place < stream.size:
            part = stream[place : place + (1, 1, 1, 7, 40)[place % 5]]
            answer = service.client.post(
                "/v1/verdicts", content=npz(features=kinds[part]), headers={"content-type": "application/x-npz"}
            )
            verdicts = answer.raise_for_status().json()["verdicts"]
            assert [row["score"] for row in verdicts] == expected.score[part].tolist()
            assert [row["kind"] for row in verdicts] == expected.kind[part].tolist()
            place += part.size
        view = service.live(rows=place)
    assert view["alarms"] == []


def test_a_confidence_in_percent_is_refused_with_row_and_field(tmp_path):
    rng = np.random.default_rng(13)
    confidence = rng.uniform(0.5, 1, size=300)
    held = Outputs(predictions=[0] * 300, confidence=confidence, labels=(rng.random(300) > confidence).astype(int))
    Guard("confidence", sets=None).calibrate(held).save(tmp_path / "guard")
    with serving(tmp_path / "guard", tmp_path / "audit.sqlite") as service:
        answer = service.post({}, predictions=[0, 0], confidence=[0.9, 97.0])
        assert answer.status_code == 422
        assert "confidence must be between 0 and 1" in answer.json()["error"]
        assert "got 97 at row 1" in answer.json()["error"]
        assert service.post({}, predictions=[0], confidence=[0.97]).status_code == 200
