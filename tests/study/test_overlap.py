from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError
from caveat_lab.experiments.overlap import check_images_apart, row_hashes

IMAGES = np.random.default_rng(0).random((20, 1, 3, 3))


def test_half_of_the_smaller_role_may_be_shared_and_no_more():
    check_images_apart({"train": row_hashes(IMAGES[:10]), "test": row_hashes(IMAGES[8:12])})
    with pytest.raises(InputError, match="train and test share 3 of 4 images"):
        check_images_apart({"train": row_hashes(IMAGES[:10]), "test": row_hashes(IMAGES[7:11])})


def test_outlier_sets_are_compared_with_the_data_and_not_with_each_other():
    own, odd = {"train": row_hashes(IMAGES[:10])}, row_hashes(IMAGES[10:])
    check_images_apart(own, {"a": odd, "b": odd})
    with pytest.raises(InputError, match="train and outlier set 'b' share 10 of 10 images"):
        check_images_apart(own, {"a": odd, "b": own["train"]})
