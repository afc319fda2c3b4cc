from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from caveat import InputError
from caveat.data._inert_pickle import read_inert


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
