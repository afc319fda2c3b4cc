"""Products of rows: the same numbers as numpy, the same bits wherever a row stands, and the fall-back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from caveat._internal import products
from caveat._internal.products import row_products


@given(
    n=st.integers(0, 40), width=st.integers(1, 40), columns=st.integers(1, 20), transposed=st.booleans(),
    kind=st.sampled_from([np.float16, np.float32, np.float64]), order=st.sampled_from("CF"), seed=st.integers(0, 99),
)  # fmt: skip
def test_it_is_the_product_in_float64(n, width, columns, transposed, kind, order, seed):
    rng = np.random.default_rng(seed)
    rows = np.asarray(rng.normal(size=(n, width)), dtype=kind, order=order)
    matrix = rng.normal(size=(columns, width) if transposed else (width, columns)).astype(kind)
    wide = matrix.astype(np.float64)
    result = row_products(rows, matrix, transposed=transposed)
    assert result.dtype == np.float64
    np.testing.assert_allclose(
        result, rows.astype(np.float64) @ (wide.T if transposed else wide), rtol=1e-12, atol=1e-12
    )


# 400 and 1,000 are where OpenBLAS splits the inner sum in another way for several threads than for one.
@pytest.mark.parametrize("width", [1, 33, 100, 257, 400, 1000])
@pytest.mark.parametrize("columns", [1, 2, 10, 100, 513])
def test_a_row_has_the_same_bits_in_every_batch_and_place_on_any_number_of_threads(width, columns):
    rng = np.random.default_rng(width)
    rows, matrix = rng.normal(size=(300, width)), rng.normal(size=(width, columns))
    with threadpool_limits(1, user_api="blas"):
        whole = row_products(rows, matrix)
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="blas"):
            order = rng.permutation(len(rows))
            np.testing.assert_array_equal(row_products(rows[order], matrix), whole[order])
            for start, stop in ((7, 8), (3, 5), (100, 290), (10, 83)):
                np.testing.assert_array_equal(row_products(rows[start:stop], matrix), whole[start:stop])


def test_where_a_row_depends_on_its_place_rows_are_multiplied_one_by_one(monkeypatch):
    matmul = np.matmul

    def by_place(blocks, matrix, out=None):
        result = matmul(blocks, matrix)
        if blocks.ndim == 3:
            result *= 1 + 2.0**-52 * np.arange(blocks.shape[1])[:, None]
        if out is not None:
            out[...] = result
        return result

    products._sizes.cache_clear()
    monkeypatch.setattr(np, "matmul", by_place)
    try:
        assert products._sizes(30, 20) == (1,)
        rng = np.random.default_rng(0)
        rows, matrix = rng.normal(size=(20, 30)), rng.normal(size=(30, 20))
        whole = row_products(rows, matrix)
        np.testing.assert_array_equal(row_products(rows[5:6], matrix), whole[5:6])
    finally:
        products._sizes.cache_clear()


def test_a_large_matrix_is_cast_once_and_forgotten_with_it():
    matrix = np.ones((300, 300), dtype=np.float32)
    row_products(np.ones((2, 300)), matrix)
    key = (id(matrix), False)
    kept = products._kept[key][1]
    row_products(np.ones((2, 300)), matrix)
    assert products._kept[key][1] is kept
    assert not matrix.flags.writeable
    del matrix
    assert key not in products._kept
