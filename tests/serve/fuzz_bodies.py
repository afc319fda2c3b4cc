"""Bodies for the fuzz tests; also what schemathesis loads to make valid bodies of the binary media types."""

from __future__ import annotations

import io
import os

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

WIDTH = 3
NPY, NPZ = "application/x-npy", "application/x-npz"
ARROW, JSON = "application/vnd.apache.arrow.stream", "application/json"


def _npy(rows):
    stream = io.BytesIO()
    np.save(stream, rows)
    return stream.getvalue()


def _npz(rows):
    stream = io.BytesIO()
    np.savez(stream, logits=rows)
    return stream.getvalue()


def _arrow(rows):
    table = pa.table({"logits": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), WIDTH)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


_NUMBERS = {"min_value": -1000, "max_value": 1000}
_ROWS = hnp.arrays(np.float32, st.tuples(st.integers(1, 5), st.just(WIDTH)), elements=_NUMBERS)
_BODIES = {NPY: _ROWS.map(_npy), NPZ: _ROWS.map(_npz), ARROW: _ROWS.map(_arrow)}
_JSON_TEXT = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30).map(str) | st.floats().map(str) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["logits", "probs", "labels", "x"]), inner)
    ),
    max_leaves=10,
).map(lambda value: str(value).replace("'", '"').encode("utf-8", "replace"))


@st.composite
def damaged(draw, whole):
    """A valid body with some of its bytes changed, cut, repeated or put in."""
    body = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, 4))):
        place, how = draw(st.integers(0, len(body))), draw(st.sampled_from(["change", "cut", "insert", "repeat"]))
        if how == "change" and place < len(body):
            body[place] = draw(st.integers(0, 255))
        elif how == "cut":
            del body[place : place + draw(st.integers(1, 50))]
        elif how == "insert":
            body[place:place] = draw(st.binary(max_size=20))
        else:
            body[place:place] = body[max(0, place - 30) : place]
    return bytes(body)


VALID = st.sampled_from(list(_BODIES)).flatmap(lambda media_type: st.tuples(st.just(media_type), _BODIES[media_type]))
BROKEN = st.sampled_from([*_BODIES, JSON, "text/plain", ""]).flatmap(
    lambda media_type: st.tuples(
        st.just(media_type),
        st.binary(max_size=200) | _JSON_TEXT | (damaged(_BODIES[media_type]) if media_type in _BODIES else _JSON_TEXT),
    )
)

if "SCHEMATHESIS_HOOKS" in os.environ:
    import schemathesis

    for _media_type, _bodies in _BODIES.items():
        schemathesis.openapi.media_type(_media_type, _bodies)
