from __future__ import annotations

import pickle

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


def test_a_folder_that_is_not_ours_is_never_replaced(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="was not written by Caveat"), _files.replacing_folder(theirs, marker="m"):
        pass
    assert (theirs / "thesis.tex").exists()


def test_a_failed_folder_leaves_the_old_one(tmp_path):
    ours = tmp_path / "ours"
    with _files.replacing_folder(ours, marker="m") as folder:
        (folder / "m").write_text("1")
    with pytest.raises(RuntimeError), _files.replacing_folder(ours, marker="m"):
        raise RuntimeError
    assert (ours / "m").read_text() == "1"
    assert list(tmp_path.iterdir()) == [ours]


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
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"single \.npy array"):
        _files.read_npz(tmp_path / "one.npy")


def test_json_that_is_not_an_object(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        _files.read_json(path)
    path.write_text("[1]")
    with pytest.raises(InputError, match="must hold a JSON object, got list"):
        _files.read_json(path)
