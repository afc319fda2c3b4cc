from __future__ import annotations

import numpy as np

from caveat.demo import digits


def test_digits_are_shares_of_ink():
    images = digits()
    assert len(images) == 1797
    assert images.pixels.min() == 0
    assert images.pixels.max() == 1
    assert np.bincount(images.labels).min() > 170
