from __future__ import annotations

import io
import os
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, Outputs, scores, stats
from caveat._internal import files
from caveat_lab import data
from caveat_lab.data._inert_pickle import read_inert
from caveat_lab.experiments import Plan, StudyResults
from caveat_lab.experiments.fingerprints import fingerprint
from caveat_lab.experiments.train_plan import TrainPlan
from caveat_lab.papers.agreement import Agreement
from caveat_lab.robust import Network


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), files.replacing_file(target) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_good_write_replaces(tmp_path):
    target = tmp_path / "sub" / "a.txt"
    with files.replacing_file(target) as temporary:
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
            files.read_npz(cut)


def test_damage_inside_an_archive_is_found(tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, logits=np.arange(1000.0))
    content = bytearray(path.read_bytes())
    content[400:800] = b"x" * 400
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        files.read_npz(path)


def test_pickles_are_never_read(tmp_path):
    inside = tmp_path / "inside.npz"
    np.savez(inside, logits=np.array([{"a": 1}], dtype=object))
    bare = tmp_path / "bare.npz"
    bare.write_bytes(pickle.dumps([1, 2]))
    for path in (inside, bare):
        with pytest.raises(InputError, match="pickled objects, which can run code and are never read"):
            files.read_npz(path)
    array = tmp_path / "a.npy"
    np.save(array, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"a\.npy"):
        files.read_npy(array)


def test_missing_files_and_the_wrong_kind(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        files.read_npz(tmp_path / "no.npz")
    with pytest.raises(InputError, match="does not exist"):
        files.read_npy(tmp_path / "no.npy")
    with pytest.raises(InputError, match="does not exist"):
        files.read_json(tmp_path / "no.json")
    with (tmp_path / "one.npz").open("wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(InputError, match=r"single \.npy array"):
        files.read_npz(tmp_path / "one.npz")


def test_json_that_is_not_an_object(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        files.read_json(path)
    path.write_text("[1]")
    with pytest.raises(InputError, match="must hold a JSON object, got list"):
        files.read_json(path)


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


@pytest.mark.parametrize("read", [files.read_npz, files.npz_shapes])
def test_encrypted_and_unknown_archives_are_one_sentence(tmp_path, read):
    encrypted = changed(npz_of(tmp_path / "a.npz", npy_of((2, 2))), local=6, central=8, value=1)
    with pytest.raises(InputError, match=r"a\.npz is damaged or not an \.npz file .*encrypted"):
        read(encrypted)
    packed = changed(npz_of(tmp_path / "b.npz", npy_of((2, 2))), local=8, central=10, value=93)
    with pytest.raises(InputError, match=r"b\.npz is damaged or not an \.npz file .*compression"):
        read(packed)


def test_a_header_that_promises_more_than_all_memory_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"a\.npz needs more memory than there is .* Store a folder"):
        files.read_npz(npz_of(tmp_path / "a.npz", npy_of((10**15, 2))))


def test_damage_in_a_rare_compression_is_found(tmp_path):
    path = npz_of(tmp_path / "a.npz", npy_of((20, 2), bytes(range(160)) * 2), compression=zipfile.ZIP_LZMA)
    content = bytearray(path.read_bytes())
    content[60:90] = b"\xff" * 30
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        files.read_npz(path)


def test_no_change_of_a_header_gets_through_as_another_error(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    whole = (tmp_path / "a.npy").read_bytes()
    read = 0
    for place in range(128):
        for value in (255, whole[place] ^ 1):
            changed = whole[:place] + bytes([value]) + whole[place + 1 :]
            (tmp_path / "a.npy").write_bytes(changed)
            for path, reader in (
                (tmp_path / "a.npy", files.read_npy),
                (npz_of(tmp_path / "a.npz", changed, name="a.npy"), files.read_npz),
                (tmp_path / "a.npz", files.npz_shapes),
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
        files.read_npz(path)


def test_a_member_that_is_no_array_has_no_shape(tmp_path):
    path = npz_of(tmp_path / "a.npz", npy_of((4, 2)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("readme.txt", "hello")
    assert files.npz_shapes(path) == {"logits": (4, 2)}


def test_arrays_whose_names_end_like_files_are_told_apart(tmp_path):
    np.savez(tmp_path / "a.npz", **{"x": [1.0], "x.npy": [2.0], "x.npy.npy": [3.0]})
    found = files.read_npz(tmp_path / "a.npz")
    assert {name: array[0] for name, array in found.items()} == {"x": 1.0, "x.npy": 2.0, "x.npy.npy": 3.0}


def test_a_file_does_not_replace_a_folder(tmp_path):
    with pytest.raises(InputError, match="must be a file, but there is a folder"), files.replacing_file(tmp_path):
        pass


def test_json_nested_beyond_reason_is_damaged(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="is damaged"):
        files.read_json(path)


def test_only_the_wanted_arrays_of_an_archive_are_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", npy_of((4, 2)))
        with archive.open("other.npy", "w", force_zip64=True) as stream:  # 80 MB of zeros in 80 kB
            stream.write(npy_of((10_000_000,), b""))
            for _ in range(10):
                stream.write(bytes(8_000_000))
    tracemalloc.start()
    with pytest.warns(CaveatWarning, match="other"):
        assert Outputs.load(tmp_path / "a.npz").n == 4
    assert list(files.read_npz(tmp_path / "a.npz", ["logits"])) == ["logits"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_an_archive_larger_than_the_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", logits=np.zeros((2000, 100)), small=np.zeros(3))
    monkeypatch.setattr(files, "_free_memory", lambda: 10**6)
    monkeypatch.setattr(files, "_array", None)
    with pytest.raises(InputError, match="needs more memory than there is"):
        files.read_npz(tmp_path / "a.npz")
    monkeypatch.undo()
    assert len(files.read_npz(tmp_path / "a.npz")) == 2


def test_the_memory_of_this_machine_is_known_or_unbounded():
    assert files._free_memory() > 10**6


def test_an_array_that_is_shorter_than_it_says_takes_no_memory(tmp_path):
    path = npz_of(tmp_path / "a.npz", npy_of((10**8,)))  # 800 MB, of which 64 bytes are there
    tracemalloc.start()
    with pytest.raises(InputError, match="damaged"):
        files.read_npz(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6


def test_a_header_that_claims_the_whole_file_takes_no_memory(tmp_path):
    content = b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little") + bytes(2**24)
    path = npz_of(tmp_path / "a.npz", content, compression=zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    for read in (files.npz_shapes, files.read_npz):
        with pytest.raises(InputError, match="damaged"):
            read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6


def test_no_array_is_stored_beside_those_that_were_given(tmp_path):
    Outputs(logits=np.zeros((2, 3))).save(tmp_path / "a.npz")  # numpy before 2.2 has no allow_pickle here
    assert files.npz_names(tmp_path / "a.npz") == ["logits"]


def test_the_writer_of_archives_is_given_arrays_only(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(np, "savez", lambda stream, **arrays: seen.update(arrays))
    Outputs(logits=np.zeros((2, 3))).save(tmp_path / "a.npz")
    assert list(seen) == ["logits"]


DIGITS = "1" * 5000
BAD_TEXTS = {
    "JSON integer": (files.read_json, '{"n": ' + DIGITS + "}"),
    "JSON integer deep inside": (files.read_json, '{"n": [[{"a": -' + DIGITS + "}]]}"),
    "JSON lists": (files.read_json, '{"a": ' + "[" * 3000 + "]" * 3000 + "}"),
    "JSON objects": (files.read_json, '{"a": ' * 300 + "1" + "}" * 300),
    "JSON bytes": (files.read_json, b"\xff\xfe{}"),
    "JSON of nothing": (files.read_json, ""),
    "TOML integer": (files.read_toml, f"n = {DIGITS}"),
    "TOML lists": (files.read_toml, "a = " + "[" * 3000 + "]" * 3000),
    "TOML tables": (files.read_toml, "a = " + "{a = " * 3000 + "1" + "}" * 3000),
    "TOML dotted key": (files.read_toml, ".".join("a" * 3000) + " = 1"),
    "TOML dotted table": (files.read_toml, "[" + ".".join("a" * 3000) + "]\nb = 1"),
    "TOML bytes": (files.read_toml, b"a = '\xff'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_texts_beyond_reason_are_one_sentence(tmp_path, name):
    read, content = BAD_TEXTS[name]
    path = tmp_path / "file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=r"file is (damaged JSON|not a TOML file) \(.+\)\. \w+ it") as caught:
        read(path)
    assert len(str(caught.value)) < 500


READERS = {
    "read_json": files.read_json, "read_toml": files.read_toml, "read_npz": files.read_npz,
    "npz_shapes": files.npz_shapes, "read_npy": files.read_npy, "read_bytes": files.read_bytes,
    "plan": Plan.read, "training plan": TrainPlan.read, "agreement": Agreement.read, "fingerprint": fingerprint,
    "idx": data.read_idx, "svhn": data.read_svhn, "packed": data.read_packed, "pickle": read_inert,
    "cifar": lambda path: data.read_cifar_binary([path]), "cifar python": lambda path: data.read_cifar_python([path]),
    "network": Network.load, "table": stats.compare,
    "outputs": Outputs.load, "any images": data.read, "folder of images": data.read_folder, "score": scores.load,
    "store": StudyResults.read,
}  # fmt: skip
FOLDERS = {"outputs", "any images", "folder of images", "score", "store", "fingerprint"}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("where", ["gone", "x" * 300, "file/inner", "y/" * 3000, "nul\0byte", "folder", "file"])
def test_a_path_that_cannot_be_read_is_one_sentence(tmp_path, name, where):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    if "\0" in where and name == "table":
        return  # not a path of a file that anyone could have
    if where == "folder" and name == "fingerprint":
        return  # that of an empty folder
    if where == "file" and name in ("read_bytes", "fingerprint"):
        return  # an empty file is one
    if where == "file" and name == "read_toml":
        assert files.read_toml(tmp_path / "file") == {}
        return
    with pytest.raises(InputError) as caught:
        READERS[name](tmp_path / where)
    assert "\n" not in str(caught.value)
    if where == "folder" and name not in FOLDERS:
        assert "folder" in str(caught.value)


@pytest.mark.parametrize("where", ["x" * 300, "file/inner", "folder", "x" * 230 + "/y" * 3000])
def test_a_path_that_cannot_be_written_is_one_sentence_before_the_work(tmp_path, where):
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "folder").mkdir()
    worked = []
    with pytest.raises(InputError), files.replacing_file(tmp_path / where):
        worked.append(where)
    assert not worked
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_name_at_the_limit_can_be_written(tmp_path):
    for name in ("x" * 255, "a." + "x" * 250):
        with files.replacing_file(tmp_path / name) as temporary:
            temporary.write_text("new")
        assert (tmp_path / name).read_text() == "new"


def test_a_file_is_on_the_disk_before_its_name_and_the_name_after(tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(files, "sync", lambda path: events.append((path.name, path.exists(), target.exists())))
    target = tmp_path / "a.txt"
    with files.replacing_file(target) as temporary:
        temporary.write_text("new")
    assert events == [(temporary.name, True, False), (tmp_path.name, True, True)]


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with files.replacing_file(tmp_path / "a.txt") as temporary:
            temporary.write_text("new")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640
