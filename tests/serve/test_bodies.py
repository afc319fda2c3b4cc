"""Bodies become arrays or a Problem with the right status; nothing else, never slowly, never with much memory."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
import warnings
import zipfile

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.serve.conftest import npy, npz
from tests.serve.test_arrow import stream

from caveat.serve.bodies import ARROW, JSON, MEDIA_TYPES, NPY, NPZ, has_booleans, numbers, read_arrays
from caveat.serve.problems import Problem

MOST = 1 << 20
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def read(body, media_type, *, most=MOST, field="features"):
    return read_arrays(body, media_type, field=field, most=most)


def refused(status, body, media_type, match=None, **options):
    with pytest.raises(Problem, match=match) as problem:
        read(body, media_type, **options)
    assert problem.value.status == status
    return str(problem.value)


def header(text, version=1, data=b""):
    """An .npy file with this text as its header."""
    width = "<H" if version == 1 else "<I"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(width, len(text)) + text.encode("latin-1") + data


def named(descr, shape, order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


# -- npy --------------------------------------------------------------------------------------------------------------


@given(
    hnp.arrays(
        dtype=st.sampled_from(["<f2", "<f4", "<f8", ">f4", ">f8", "<i4", ">i8", "|i1", "|u1", "<u2", "<u8"]),
        shape=hnp.array_shapes(min_dims=1, max_dims=4, max_side=5),
        elements=st.integers(0, 100),
    ),
    st.booleans(),
)
def test_what_numpy_saves_is_read_back_native_aligned_and_in_c_order(array, fortran):
    array = np.asfortranarray(array) if fortran else array
    back = read(npy(array), NPY)["features"]
    assert np.array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("=")
    assert back.flags.aligned
    assert back.flags.c_contiguous


def test_an_npy_body_is_a_view_of_what_was_sent():
    body = npy(ROWS)
    assert np.shares_memory(read(body, NPY)["features"], np.frombuffer(body, dtype=np.uint8))


@pytest.mark.parametrize("text", [
    '{"descr": "<f4", "shape": (3, 4), "fortran_order": False}',  # written by others: quotes, order, no last comma
    "{'shape':(3,4),'fortran_order':False,'descr':'<f4'}\n",
    named("'<f4'", "(3, 4)") + " " * 5000 + "\n",
])  # fmt: skip
def test_headers_of_other_writers_are_read(text):
    for version in (1, 2, 3):
        assert np.array_equal(read(header(text, version, ROWS.tobytes()), NPY)["features"], ROWS)


@pytest.mark.parametrize(("status", "text"), [
    (400, "[]"), (400, "{}"), (400, "{'descr': '<f4'}"), (400, "not a header"), (400, ""),
    (400, named("'<f4'", "(3, -4)")), (400, named("'<f4'", "(3.0, 4)")), (400, named("'<f4'", "[3, 4]")),
    (400, named("'<f4'", "(True, 4)")), (400, named("'<f4'", "(3, 4)", order="1")),
    (400, named("'<f4'", "(300, 4)")), (400, named("'<f8'", "(3, 4)")), (400, named("'<f4'", "(3, 5)")),
    (400, named("'<f4'", "()")), (400, named("'<f4'", "(999999999999999999, 4)")),
    (422, named("'<f4'", "(" + "9" * 4000 + ", 4)")), (422, named("'<f4'", "(1, 1, 1, 1, 1, 1, 1, 3, 4)")),
    (422, named("'<f4'", "(0, 4)")), (422, named("'<f4'", "(3, 0)")), (422, named("'|b1'", "(48,)")),
    (422, named("'<c8'", "(3, 2)")), (422, named("'<U3'", "(4,)")), (422, named("'|S48'", "(1,)")),
    (422, named("'<M8[s]'", "(6,)")), (422, named("'<f16'", "(3,)")), (422, named("'|V48'", "(1,)")),
    (422, named("[('a', '<f4'), ('b', '<f4')]", "(6,)")), (422, named("'wrong'", "(6,)")),
])  # fmt: skip
def test_a_wrong_header_is_refused(status, text):
    refused(status, header(text, data=ROWS.tobytes()), NPY)


def test_pickled_objects_are_named_and_never_read():
    stream = io.BytesIO()
    np.save(stream, np.array([print, len], dtype=object), allow_pickle=True)
    refused(422, stream.getvalue(), NPY, "pickled objects")
    refused(422, npz_bytes({"features.npy": stream.getvalue()}), NPZ, "pickled objects")


@pytest.mark.parametrize("text", ["[" * 16_000, "(" * 16_000, "-" * 16_000 + "1", "1if " * 4000, "{'shape': (" * 1400,
                                  " " * 16_000, "'descr':" * 2000, "'shape':(" + "1," * 8000])  # fmt: skip
def test_a_hostile_header_costs_nothing_and_prints_nothing(text):
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused(400, header(text), NPY)
    assert time.process_time() - start < 0.1


def test_cut_and_overlong_files_are_malformed():
    body = npy(ROWS)
    for cut in (0, 3, 7, 9, 50, len(body) - 1):
        refused(400, body[:cut], NPY)
    refused(400, body + b"x", NPY, "13[0-9]|bytes after its header")
    refused(400, b"\x93NUMPY\x01\x00\xff\xff", NPY, "ends too early")
    refused(400, b"\x93NUMPY\x09\x00" + body[8:], NPY, "version")
    refused(400, b"PK" + body, NPY, "does not start as one")


def test_an_array_without_a_name_needs_a_service_that_reads_one():
    refused(422, npy(ROWS), NPY, "Send them as npz", field="")


# -- npz --------------------------------------------------------------------------------------------------------------


def npz_bytes(members, method=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal names
        for name, content in members.items() if isinstance(members, dict) else members:
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_of_numpy_are_read(save):
    stream = io.BytesIO()
    save(stream, features=ROWS, logits=ROWS[:, :2].astype(np.float64))
    arrays = read(stream.getvalue(), NPZ)
    assert list(arrays) == ["features", "logits"]
    assert np.array_equal(arrays["features"], ROWS)
    assert arrays["logits"].dtype == np.float64


def test_other_members_of_an_archive_are_not_looked_at():
    body = npz_bytes({"notes.txt": b"x" * 5000, "features.npy": npy(ROWS)})
    assert list(read(body, NPZ, most=1000)) == ["features"]


def test_a_small_archive_cannot_become_a_large_one():
    zeros = npy(np.zeros((2000, 1000), dtype=np.float32))  # 8 MB of zeros
    body = npz_bytes({"features.npy": zeros}, zipfile.ZIP_DEFLATED)
    assert len(body) < 20_000
    refused(413, body, NPZ, "at most")
    lying = body.replace(struct.pack("<I", len(zeros)), struct.pack("<I", 500_000))  # in directory and local header
    assert peak(lambda: refused(400, lying, NPZ)) < 2 * MOST


def test_many_members_are_refused_before_they_are_listed():
    body = npz_bytes([(f"{i}.npy", b"") for i in range(3000)])
    refused(422, body, NPZ, "at most 100 arrays")
    refused(422, npz_bytes([(f"{i}.npy", npy(ROWS)) for i in range(101)]), NPZ, "at most 100 arrays")


@pytest.mark.parametrize("members", [
    [("features.npy", npy(ROWS)), ("features.npy", npy(ROWS + 1))], [("a/features.npy", npy(ROWS))],
    [("../features.npy", npy(ROWS))],
])  # fmt: skip
def test_equal_names_and_folders_are_refused(members):
    refused(422, npz_bytes(members), NPZ, "names")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_are_refused(method):  # the header of LZMA names the size of a dictionary, up to 4 GiB
    refused(415, npz_bytes({"features.npy": npy(ROWS)}, method), NPZ, "deflate")


def test_an_encrypted_archive_is_refused():
    body = bytearray(npz_bytes({"features.npy": npy(ROWS)}))
    directory = body.index(b"PK\x01\x02")
    body[directory + 8] |= 1
    refused(415, bytes(body), NPZ, "encrypted")


def test_damage_of_an_archive_is_malformed():
    body = npz(features=ROWS)
    for cut in (0, 10, 100, len(body) - 1):
        refused(400, body[:cut], NPZ)
    changed = bytearray(body)
    changed[150] ^= 255  # a byte of the array: the checksum no longer fits
    refused(400, bytes(changed), NPZ, "CRC")


def test_an_archive_of_zip64_is_read():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive, archive.open("features.npy", "w", force_zip64=True) as member:
        member.write(npy(ROWS))
    assert np.array_equal(read(stream.getvalue(), NPZ)["features"], ROWS)


# -- JSON -------------------------------------------------------------------------------------------------------------


def test_json_numbers_by_hand():
    arrays = read(b'{"a": [[1, 2], [3, 4]], "b": [[1, 0.5]], "c": [1e3], "d": [[[1.0]], [[-2]]]}', JSON)
    assert arrays["a"].dtype == np.int64
    assert arrays["a"].tolist() == [[1, 2], [3, 4]]
    assert arrays["b"].tolist() == [[1.0, 0.5]]
    assert arrays["c"].tolist() == [1000.0]
    assert arrays["d"].tolist() == [[[1.0]], [[-2.0]]]


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=1, max_dims=4, max_side=4),
                  elements=st.floats(allow_nan=False, allow_infinity=False)))  # fmt: skip
def test_json_gives_every_number_back_exactly(array):
    back = read(orjson.dumps({"features": array.tolist()}), JSON)["features"]
    assert np.array_equal(back, array)
    assert back.shape == array.shape


@pytest.mark.parametrize("value", [
    "null", "true", "1", '"1"', "{}", "[]", "[[]]", "[[], []]", "[null]", "[true, false]", "[[1, true]]",
    "[[true, 1.5]]", '["1"]', "[[1, 2], [3]]", "[[1], 2]", "[1, [2]]", "[[[1]], [2]]", "[{}]", "[[{}]]",
    "[[[[[[[[[1]]]]]]]]]", "[[1, null]]",
])  # fmt: skip
def test_json_that_is_not_rows_of_numbers_is_refused(value):
    refused(422, f'{{"features": {value}}}'.encode(), JSON, "rows of numbers")


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "nan"])
def test_json_has_no_infinity(text):
    refused(422, f'{{"features": [[1.0, {text}]]}}'.encode(), JSON, "not JSON")


@pytest.mark.parametrize("body", [b"", b" ", b"{", b"}", b"\xff\xfe", b"[" * 5000, b'{"a": [1', b'{"a" 1}', b"{1: 2}",
                                  b'{"\\ud800": [1]}', b"\x00", b'{"a": [01]}', b'{"a": [1,]}'])  # fmt: skip
def test_text_that_is_not_json_is_malformed(body):
    refused(400, body, JSON, "not JSON")


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b'"x"', b"true"])
def test_json_must_be_an_object(body):
    refused(422, body, JSON, "JSON object")


numbers_in_json = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53) + 1, 2**53 - 1), st.integers(),
    st.sampled_from([True, False, None, "1", [1.0], {"a": 1.0}, 0, -0.0, 5e-324, 1.7e308]),
)  # fmt: skip


@given(
    st.lists(st.lists(numbers_in_json, min_size=1, max_size=3), min_size=1, max_size=4),
    st.booleans(),
)
def test_the_short_way_of_a_matrix_gives_what_a_look_at_each_number_gives(rows, same_length):
    if same_length:
        rows = [row[:1] for row in rows]

    def read(booleans):
        try:
            array = numbers(rows, "x", booleans=booleans)
        except Problem as problem:
            return problem.status, str(problem)
        return array.dtype, array.shape, array.tobytes()

    if not any(isinstance(value, bool) for row in rows for value in row):
        assert read(False) == read(True)


@given(st.lists(st.sampled_from([b"true", b"false", b"tru", b"alse", b"u", b"l", b"1.5", b",", b"[", b'"'])), st.data())
def test_booleans_are_found_as_a_literal_search_finds_them(parts, data):
    text = b"".join(parts)
    assert has_booleans(text) == (b"true" in text or b"false" in text)
    many = b"u" * data.draw(st.integers(90, 110)) + text
    assert has_booleans(many) == (b"true" in many or b"false" in many)


def test_a_name_comes_once():
    refused(422, b'{"a": [1.0], "a": [2.0]}', JSON, "once")
    refused(422, b'{"a": [1.0], "\\u0061": [2.0]}', JSON, "once")


def test_whole_numbers_that_float64_would_change_are_named_with_their_row():
    assert numbers([[2**53], [-(2**53)]], "x").tolist() == [[2**53], [-(2**53)]]
    for rows in ([[1, 2], [3, 2**53 + 1]], [[0.5, 2], [-(2**53) - 1, 1]], [[1, 2], [2**64 - 1, 1]]):
        message = refused(422, orjson.dumps({"features": rows}), JSON, "2\\*\\*53")
        assert "features" in message
        assert "row 1" in message
    assert read(b'{"a": [[100000000000000000000000]]}', JSON)["a"].tolist() == [[1e23]]  # JSON of other languages


def peak(step):
    """Most bytes that Python took during a step."""
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("part", [b"[],", b"{},", b"0,", b"1.5,", b'"",', b"[[1]],", b'{"a":1},'])
def test_json_takes_a_few_times_the_limit_at_most(part):
    body = b'{"features": [' + part * (MOST // len(part)) + b"0]}"
    assert peak(lambda: refused(413, body, JSON)) < 2 * MOST
    few = b'{"features": [' + part * (3 * MOST // 100 // max(1, part.count(b"[") + part.count(b"{") + part.count(b'"')))
    assert peak(lambda: refused_or_read(few + b"0]}", JSON)) < 8 * MOST


# -- anything ---------------------------------------------------------------------------------------------------------


def refused_or_read(body, media_type):
    """Read a body; a Problem has a status of the contract and one sentence, an array is finite in size and settled."""
    arrays, problem = {}, None
    try:
        arrays = read(body, media_type)
    except Problem as refusal:
        problem = refusal
    if problem is not None:
        assert problem.status in (400, 413, 415, 422)
        assert str(problem).endswith(".")
        assert "\n" not in str(problem)
        assert len(str(problem)) < 700
    assert sum(array.nbytes for array in arrays.values()) <= max(8 * len(body), MOST)
    for array in arrays.values():
        assert array.dtype.kind in "fiu"
        assert array.dtype.itemsize <= 8
        assert array.size
        assert array.flags.c_contiguous


VALID = [
    (NPY, npy(ROWS)), (NPY, npy(np.asfortranarray(ROWS.astype(">f8")))), (NPZ, npz(features=ROWS, logits=ROWS)),
    (NPZ, npz_bytes({"features.npy": npy(np.zeros((9, 9)))}, zipfile.ZIP_DEFLATED)),
    (JSON, orjson.dumps({"features": ROWS.tolist(), "logits": [[1, 2], [3, 4]]})),
    (ARROW, stream(features=ROWS, logits=ROWS[:, 0])),
]  # fmt: skip


@given(st.sampled_from(MEDIA_TYPES), st.binary(max_size=300))
@example(NPY, b"\x93NUMPY\x01\x00")
def test_any_bytes_are_read_or_refused(media_type, body):
    refused_or_read(body, media_type)


@settings(max_examples=400)
@given(st.sampled_from(VALID), st.data())
def test_a_changed_body_is_read_or_refused(valid, data):
    media_type, body = valid[0], bytearray(valid[1])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        how = data.draw(st.sampled_from(["set", "cut", "insert", "flip", "number"]))
        if how == "set":
            body[place] = data.draw(st.integers(0, 255))
        elif how == "flip":
            body[place] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "cut":
            del body[place : place + data.draw(st.integers(1, 20))]
        elif how == "insert":
            body[place:place] = data.draw(st.binary(max_size=8))
        else:
            body[place : place + 4] = struct.pack("<i", data.draw(st.sampled_from([-1, 2**31 - 1, -(2**31), 2**20])))
        if not body:
            break
    assert peak(lambda: refused_or_read(bytes(body), media_type)) < 4 * MOST


@pytest.mark.parametrize(
    "media_type", ["", "text/plain", "application/x-www-form-urlencoded", "image/png", "json", "é"]
)
def test_other_content_types_are_unsupported(media_type):
    refused(415, b"{}", media_type, "content type")


def test_parameters_and_case_of_a_content_type_do_not_matter():
    assert list(read(b'{"a": [1]}', "Application/JSON; charset=utf-8")) == ["a"]
