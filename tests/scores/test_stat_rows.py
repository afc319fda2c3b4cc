from __future__ import annotations

import numpy as np

from caveat import Outputs
from caveat.scores._stat_rows import RowLengths, RowPredictions
from caveat.scores._statistics import gather


def test_rows_keep_their_order_over_blocks_and_parts(train, monkeypatch):
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 1000)
    wanted = [RowLengths(), RowPredictions()]
    both = gather(train[:7], wanted) + gather(train[7:], wanted)
    for found in (gather(train, wanted), both):
        np.testing.assert_allclose(found[RowLengths()].lengths, [np.sqrt(sum(row**2)) for row in train.features])
        np.testing.assert_array_equal(found[RowPredictions()].predictions, np.argmax(train.logits, axis=1))


def test_outputs_without_predictions_have_none():
    found = gather(Outputs(features=np.eye(3)), [RowPredictions()])
    assert found[RowPredictions()].predictions is None
