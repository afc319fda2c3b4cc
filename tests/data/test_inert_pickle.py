from __future__ import annotations

import gc
import os
import pickle
import time
import tracemalloc

import numpy as np
import pytest

from caveat import InputError
from caveat_lab.data._inert_pickle import read_inert


@pytest.mark.parametrize("protocol", range(2, 5))
@pytest.mark.parametrize("kind", ["uint8", "int32", ">i2", "float64"])
def test_plain_things_come_back(tmp_path, protocol, kind):
    array = np.asfortranarray(np.arange(6).reshape(2, 3).astype(kind))
    said = {"data": array, b"labels": [1, 2, None], "more": {"a": (True, 2.5, -7, 10**12), "b": ()}, "big": "x" * 300}
    (tmp_path / "file").write_bytes(pickle.dumps(said, protocol=protocol))
    read = read_inert(tmp_path / "file")
    np.testing.assert_array_equal(read.pop("data"), array)
    said.pop("data")
    assert read == said


class Evil:
    def __reduce__(self):
        return os.system, ("touch was_here",)


@pytest.mark.parametrize(
    "content",
    [
        {"data": Evil()},
        Evil(),
        np.array([Evil()], dtype=object),
        np.array([{"a": 1}], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.datetime64("2020-01-01"),
        complex(1, 2),
        {1, 2},
        bytearray(b"abc"),
        open,
    ],
    ids=lambda content: type(content).__name__,
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_nothing_in_the_file_is_run(tmp_path, monkeypatch, content, protocol):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(pickle.dumps(content, protocol=protocol))
    if content is open:  # a bare name is a word, not a function
        assert read_inert(tmp_path / "file") in {"io open", "_io open", "__builtin__ open"}
    else:
        with pytest.raises(InputError, match="file"):
            read_inert(tmp_path / "file")
    assert not (tmp_path / "was_here").exists()


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x80\x02.", b"\x80\x02}q\x00(U\x04dataK\x01", b"\x80\x02K\x01u.", b"N"]
)
def test_damaged_files_get_one_sentence(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match="file"):
        read_inert(tmp_path / "file")


def test_a_file_that_holds_itself_or_nests_without_end_gets_one_sentence(tmp_path):
    itself, deep = b"\x80\x02]q\x00h\x00a.", b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b"."
    for content in (itself, deep):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(InputError, match="file is damaged"):
            read_inert(tmp_path / "file")


def test_a_short_file_of_lists_of_lists_does_not_fill_the_memory(tmp_path):
    nested = [1]
    for _ in range(30):
        nested = [nested] * 10  # written out: 10^30 numbers
    (tmp_path / "file").write_bytes(pickle.dumps(nested, protocol=2))
    found = read_inert(tmp_path / "file")
    for _ in range(30):
        found = found[-1]
    assert found == [1]


def test_every_cut_of_a_good_file_is_an_input_error(tmp_path):
    whole = pickle.dumps({"data": np.arange(3, dtype=np.uint8), "labels": [1, 2, 3]}, protocol=2)
    for stop in range(len(whole)):
        (tmp_path / "file").write_bytes(whole[:stop])
        with pytest.raises(InputError):
            read_inert(tmp_path / "file")


def doubled(levels):
    """A tuple of the same tuple twice, and so on: 2^levels empty tuples, written in 5 bytes each."""
    return b")" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(levels))


def array_of(dtype, content, shape=b"K\x02\x85"):
    """The instructions by which numpy stores an array, with parts of one's choice."""
    kind = b"cnumpy\ndtype\n" + dtype + b"K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
        + shape + kind + b"\x89" + content + b"tb"
    )  # fmt: skip


BYTES = b"B" + (10**6).to_bytes(4, "little") + bytes(10**6)
TEXT = b"X" + (10**6).to_bytes(4, "little") + b"a" * 10**6


def latin(memo):
    """bytes made from the memoised text, as Python 3 writes them for Python 2."""
    return b"c_codecs\nencode\nh" + memo + b"U\x06latin1\x86R"


BOMBS = {
    "tuples as a key": b"}" + doubled(45) + b"K\x01s.",
    "tuples as a key of a marked dict": b"(" + doubled(45) + b"K\x01d.",
    "tuples as a function": doubled(45) + b")R.",
    "tuples as arguments": b"c_codecs\nencode\n" + doubled(45) + b"R.",
    "tuples as a type": array_of(doubled(45), b"U\x02ab") + b".",
    "tuples as the content": array_of(b"U\x02u1", doubled(45)) + b".",
    "tuples as the sides": array_of(b"U\x02u1", b"U\x02ab", doubled(45)) + b".",
    "marks": b"(" * 20_000 + b"l" * 20_000 + b".",
    "marks that are never taken": b"(" * 50_000 + b".",
    "lists": b"]" * 20_000 + b".",
    "dicts in a memo": b"}\x94" * 20_000 + b".",
    "one text encoded many times": TEXT + b"q\x00(" + latin(b"\x00") * 1500 + b"l.",
    "one content in many arrays": b"("
    + BYTES + b"q\x00" + array_of(b"U\x02u1", b"h\x00", b"J@B\x0f\x00\x85") * 1500 + b"l.",
    "colliding keys": b"}(" + b"".join(
        b"\x8a" + bytes([10]) + (k * (2**61 - 1)).to_bytes(10, "little") + b"N" for k in range(1, 10_000)) + b"u.",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_takes_little_time_and_memory(tmp_path, monkeypatch, name):
    monkeypatch.setattr("caveat_lab.data._inert_pickle._CONTAINERS", 10_000)  # a tenth, for a quick test
    content = b"\x80\x02" + BOMBS[name]
    (tmp_path / "file").write_bytes(content)
    tracemalloc.start()
    started = time.process_time()
    with pytest.raises(InputError, match="file"):
        read_inert(tmp_path / "file")
    seconds, (_, peak) = time.process_time() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 4  # tracing makes it several times slower
    assert peak < 40e6 + 8 * len(content)


def test_an_array_that_is_fetched_many_times_is_one_array(tmp_path):
    array = np.arange(2**20, dtype=np.uint8)
    (tmp_path / "file").write_bytes(pickle.dumps([array] * 1500, protocol=2))
    found = read_inert(tmp_path / "file")
    assert len(found) == 1500
    assert all(one is found[0] for one in found)
    np.testing.assert_array_equal(found[0], array)


def test_the_time_is_linear_in_the_file(tmp_path):
    def seconds(n):
        """Least CPU time of seven: other processes, and collections of what else is in memory, do not count."""
        (tmp_path / "file").write_bytes(pickle.dumps({"labels": list(range(n)), "names": [str(i) for i in range(n)]}))
        times = []
        for _ in range(7):
            gc.collect()
            gc.disable()
            try:
                started = time.process_time()
                assert len(read_inert(tmp_path / "file")["names"]) == n
                times.append(time.process_time() - started)
            finally:
                gc.enable()
        return min(times)

    assert seconds(16_000) < 20 * seconds(2_000)  # 8 if linear, 64 if quadratic
