"""A fingerprint follows the content of a file, not its name or age."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest

from caveat import InputError
from caveat._internal.cache import cache_folder
from caveat_lab.experiments import fingerprints
from caveat_lab.experiments.fingerprints import fingerprint


def test_it_is_the_sha256_of_the_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert fingerprint(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()


def test_a_folder_follows_the_names_and_bytes_of_its_arrays(tmp_path):
    np.save(tmp_path / "logits.npy", np.zeros(3))
    first = fingerprint(tmp_path)
    (tmp_path / "notes.txt").write_text("not data")
    assert fingerprint(tmp_path) == first
    (tmp_path / "logits.npy").rename(tmp_path / "features.npy")
    assert fingerprint(tmp_path) != first


def test_a_large_file_is_remembered_until_it_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVEAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprints, "_REMEMBER_ABOVE", 1)
    path = tmp_path / "large"
    path.write_bytes(b"one")
    os.utime(path, ns=(10**18, 10**18))  # long settled
    first = fingerprint(path)
    assert len(list((cache_folder() / "fingerprints").iterdir())) == 1
    path.write_bytes(b"two")
    os.utime(path, ns=(10**18, 10**18))  # same size and time: the note is believed, which shows that it is read
    assert fingerprint(path) == first
    os.utime(path, ns=(10**18 + 1, 10**18 + 1))
    assert fingerprint(path) == hashlib.sha256(b"two").hexdigest()


def test_a_file_that_just_changed_is_not_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVEAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprints, "_REMEMBER_ABOVE", 1)
    (tmp_path / "new").write_bytes(b"one")
    fingerprint(tmp_path / "new")
    assert not (tmp_path / "cache").exists()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone does not exist"):
        fingerprint(tmp_path / "gone")
