from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError
from caveat.scale import open_source
from caveat.scale.rows import SourceRows


@pytest.fixture
def rows(train):
    source = open_source(train)
    return SourceRows(source, source.read(0, 1), 0, train.n, n_classes=train.n_classes)


def test_shapes_types_and_fields_are_those_of_the_outputs(rows, train):
    assert rows.stored() == train.stored()
    assert rows.n == train.n
    assert rows.mc_logits.shape == train.mc_logits.shape
    assert rows.features.dtype == train.features.dtype
    assert {name: layer.shape for name, layer in rows.layers.items()} == {k: v.shape for k, v in train.layers.items()}
    assert rows.ease_probs is None
    for field in ("correct", "probs", "layers", "head", "ease_probs", "labels"):
        assert rows.has(field) == train.has(field)


def test_values_cannot_be_read_as_if_they_were_in_memory(rows):
    with pytest.raises(InputError, match="features of a source is not in memory"):
        np.asarray(rows.features)
    with pytest.raises(InputError, match="not in memory"):
        rows.labels[0]
    with pytest.raises(AttributeError):
        rows.nothing  # noqa: B018


@pytest.mark.parametrize("block_bytes", [500, 4096])
def test_blocks_are_cut_as_in_memory(rows, train, monkeypatch, block_bytes):
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", block_bytes)
    monkeypatch.setattr("caveat.scale.rows._PIECE_BYTES", 3 * block_bytes)
    for here, there in zip(rows.blocks(["features"]), train.blocks(["features"]), strict=True):
        np.testing.assert_array_equal(here.features, there.features)
