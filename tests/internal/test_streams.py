from __future__ import annotations

import pytest

from caveat import InputError
from caveat._internal.streams import stream


def test_a_stream_depends_on_seed_and_purpose_alone():
    first = stream(0, "calibration split").random(3).tolist()
    stream(0, "bootstrap").random(100)
    assert stream(0, "calibration split").random(3).tolist() == first
    others = [stream(1, "calibration split"), stream(0, "calibration", "split"), stream(0, 1), stream(0, "1")]
    assert len({tuple(first), *(tuple(other.random(3).tolist()) for other in others)}) == 5


def test_a_seed_is_a_whole_number():
    with pytest.raises(InputError, match="seed must be a whole number"):
        stream(-1, "x")
