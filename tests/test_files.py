from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np
import pytest

from caveat import InputError, _files


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), _files.replacing_file(target) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_good_write_replaces(tmp_path):
    target = tmp_path / "sub" / "a.txt"
    with _files.replacing_file(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"
    assert [p.name for p in target.parent.iterdir()] == ["a.txt"]


def test_a_truncated_archive_is_one_sentence(tmp_path):
    whole = tmp_path / "whole.npz"
    np.savez(whole, logits=np.zeros((100, 10)))
    for share in (0.1, 0.5, 0.99):
        cut = tmp_path / "cut.npz"
        cut.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
        with pytest.raises(InputError, match=r"cut\.npz is damaged or not an \.npz file"):
            _files.read_npz(cut)


def test_damage_inside_an_archive_is_found(tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, logits=np.arange(1000.0))
    content = bytearray(path.read_bytes())
    content[400:800] = b"x" * 400
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        _files.read_npz(path)


def test_pickles_are_never_read(tmp_path):
    inside = tmp_path / "inside.npz"
    np.savez(inside, logits=np.array([{"a": 1}], dtype=object))
    bare = tmp_path / "bare.npz"
    bare.write_bytes(pickle.dumps([1, 2]))
    for path in (inside, bare):
        with pytest.raises(InputError, match="pickled objects, which can run code and are never read"):
            _files.read_npz(path)
    array = tmp_path / "a.npy"
    np.save(array, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"a\.npy"):
        _files.read_npy(array)


def test_missing_files_and_the_wrong_kind(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        _files.read_npz(tmp_path / "no.npz")
    with pytest.raises(InputError, match="does not exist"):
        _files.read_npy(tmp_path / "no.npy")
    with pytest.raises(InputError, match="does not exist"):
        _files.read_json(tmp_path / "no.json")
    with (tmp_path / "one.npz").open("wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(InputError, match=r"single \.npy array"):
        _files.read_npz(tmp_path / "one.npz")


def test_json_that_is_not_an_object(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        _files.read_json(path)
    path.write_text("[1]")
    with pytest.raises(InputError, match="must hold a JSON object, got list"):
        _files.read_json(path)


def npz_of(path, member, name="logits.npy", compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(name, member)
    return path


def npy_of(shape, content=bytes(64)):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return stream.getvalue() + content


def changed(path, *, local, central, value):
    """The file with one byte of the first record's two headers set."""
    content = bytearray(path.read_bytes())
    content[local] = content[content.find(b"PK\x01\x02") + central] = value
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("read", [_files.read_npz, _files.npz_shapes])
def test_encrypted_and_unknown_archives_are_one_sentence(tmp_path, read):
    encrypted = changed(npz_of(tmp_path / "a.npz", npy_of((2, 2))), local=6, central=8, value=1)
    with pytest.raises(InputError, match=r"a\.npz is damaged or not an \.npz file .*encrypted"):
        read(encrypted)
    packed = changed(npz_of(tmp_path / "b.npz", npy_of((2, 2))), local=8, central=10, value=93)
    with pytest.raises(InputError, match=r"b\.npz is damaged or not an \.npz file .*compression"):
        read(packed)


def test_a_header_that_promises_more_than_all_memory_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"a\.npz needs more memory than there is .* Store a folder"):
        _files.read_npz(npz_of(tmp_path / "a.npz", npy_of((10**15, 2))))


def test_damage_in_a_rare_compression_is_found(tmp_path):
    path = npz_of(tmp_path / "a.npz", npy_of((20, 2), bytes(range(160)) * 2), compression=zipfile.ZIP_LZMA)
    content = bytearray(path.read_bytes())
    content[60:90] = b"\xff" * 30
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        _files.read_npz(path)


def test_no_change_of_a_header_gets_through_as_another_error(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    whole = (tmp_path / "a.npy").read_bytes()
    read = 0
    for place in range(128):
        for value in (255, whole[place] ^ 1):
            changed = whole[:place] + bytes([value]) + whole[place + 1 :]
            (tmp_path / "a.npy").write_bytes(changed)
            for path, reader in (
                (tmp_path / "a.npy", _files.read_npy),
                (npz_of(tmp_path / "a.npz", changed, name="a.npy"), _files.read_npz),
                (tmp_path / "a.npz", _files.npz_shapes),
            ):
                try:
                    reader(path)
                    read += 1
                except InputError as error:
                    assert str(path) in str(error)  # noqa: PT017
    assert read > 0  # some bytes are room


def test_a_table_is_not_taken_for_a_pickle(tmp_path):
    path = tmp_path / "a.npz"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"damaged or not an \.npz file \(it does not start as one\)"):
        _files.read_npz(path)


def test_a_member_that_is_no_array_has_no_shape(tmp_path):
    path = npz_of(tmp_path / "a.npz", npy_of((4, 2)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("readme.txt", "hello")
    assert _files.npz_shapes(path) == {"logits": (4, 2)}


def test_arrays_whose_names_end_like_files_are_told_apart(tmp_path):
    np.savez(tmp_path / "a.npz", **{"x": [1.0], "x.npy": [2.0], "x.npy.npy": [3.0]})
    found = _files.read_npz(tmp_path / "a.npz")
    assert {name: array[0] for name, array in found.items()} == {"x": 1.0, "x.npy": 2.0, "x.npy.npy": 3.0}


def test_a_file_does_not_replace_a_folder(tmp_path):
    with pytest.raises(InputError, match="must be a file, but there is a folder"), _files.replacing_file(tmp_path):
        pass


def test_json_nested_beyond_reason_is_damaged(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="is damaged"):
        _files.read_json(path)
