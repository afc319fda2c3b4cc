from __future__ import annotations

import json

import numpy as np
import pytest

from caveat.guard import Guard
from caveat.guard.facts import guard_facts

pytestmark = pytest.mark.filterwarnings("ignore:Nothing can be promised")  # small calibration sets keep the tests quick


def test_facts_are_plain_and_complete(calibration, draw):
    guard = Guard("energy", risk=0.15).calibrate(calibration, date="2026-01-01")
    facts = json.loads(json.dumps(guard_facts(guard), allow_nan=False))
    assert facts["fingerprint"] == guard.fingerprint
    assert facts["threshold"] == guard.threshold_
    assert facts["accept_below"] == guard.accept_below_
    assert [promise["sentence"] for promise in facts["promises"]] == [str(promise) for promise in guard.promises]
    assert facts["splits"]["calibration"]["n"] == calibration.n
    few = guard_facts(Guard("energy").calibrate(draw(np.random.default_rng(3), 10)))
    assert few["threshold"] is None
