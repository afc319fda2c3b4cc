"""Limits and the key."""

from __future__ import annotations

import os

import pytest

from caveat.errors import InputError
from caveat.serve.settings import KEY_VARIABLE, Limits, read_key

KEY = "0123456789abcdef"


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    return path


def test_the_key_comes_from_the_file_first_then_from_the_environment(key_file, monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert read_key(None) is None
    monkeypatch.setenv(KEY_VARIABLE, "x" * 16)
    assert read_key(None) == "x" * 16
    assert read_key(key_file) == KEY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o601])
def test_a_file_that_others_can_touch_is_refused(key_file, mode):
    key_file.chmod(mode)
    with pytest.raises(InputError, match="others.*chmod 600") as refused:
        read_key(key_file)
    assert KEY not in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(key_file):
    os.chown(key_file, 12345, -1)
    with pytest.raises(InputError, match="belongs to the user 12345"):
        read_key(key_file)


def test_what_is_not_a_file_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, words in (("pipe", "must be a file"), ("", "is a folder"), ("nothing", "not exist")):
        with pytest.raises(InputError, match=words):
            read_key(tmp_path / name)


@pytest.mark.parametrize("key", ["", "short", "x" * 15, "x" * 4097, "with a space in it", "tab\tin the middle of",
                                 "ünicode-ünicode-ünicode", "line\nbreak-in-the-middle"])  # fmt: skip
def test_a_weak_or_odd_key_is_refused_and_not_repeated(key_file, key, monkeypatch):
    key_file.write_text(key)
    with pytest.raises(InputError, match="the key must have") as refused:
        read_key(key_file)
    assert not key or key not in str(refused.value)
    monkeypatch.setenv(KEY_VARIABLE, key)
    with pytest.raises(InputError, match="the key must have"):
        read_key(None)


@pytest.mark.parametrize("name", ["body_bytes", "json_bytes", "reading_bytes", "rows", "connections"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "1"])
def test_counts_must_be_whole_and_positive(name, value):
    with pytest.raises(InputError, match=name):
        Limits(**{name: value})


@pytest.mark.parametrize("name", ["body_seconds", "header_seconds", "answer_seconds"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "1"])
def test_times_must_be_positive_numbers(name, value):
    with pytest.raises(InputError, match=name):
        Limits(**{name: value})
