"""Keys: where they come from, what they open, how often they may ask."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat.errors import InputError
from caveat.serve.keys import KEY_VARIABLE, LABELS_VARIABLE, Keys, Pace, read_keys

KEY = "0123456789abcdef"


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    return path


def test_the_key_comes_from_the_file_first_then_from_the_environment(key_file, monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert read_keys(None) == ()
    monkeypatch.setenv(KEY_VARIABLE, "x" * 16)
    assert read_keys(None) == ("x" * 16,)
    assert read_keys(key_file) == (KEY,)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o601])
def test_a_file_that_others_can_touch_is_refused(key_file, mode):
    key_file.chmod(mode)
    with pytest.raises(InputError, match="others.*chmod 600") as refused:
        read_keys(key_file)
    assert KEY not in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(key_file):
    os.chown(key_file, 12345, -1)
    with pytest.raises(InputError, match="belongs to the user 12345"):
        read_keys(key_file)


def test_what_is_not_a_file_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, words in (("pipe", "must be a file"), ("", "is a folder"), ("nothing", "not exist")):
        with pytest.raises(InputError, match=words):
            read_keys(tmp_path / name)


@pytest.mark.parametrize("key", ["", "short", "x" * 15, "x" * 4097, "with a space in it", "tab\tin the middle of",
                                 "ünicode-ünicode-ünicode", "line\nbreak-in-the-middle"])  # fmt: skip
def test_a_weak_or_odd_key_is_refused_and_not_repeated(key_file, key, monkeypatch):
    key_file.write_text(key)
    with pytest.raises(InputError, match="the key must have") as refused:
        read_keys(key_file)
    assert not key or key not in str(refused.value)
    monkeypatch.setenv(KEY_VARIABLE, key)
    with pytest.raises(InputError, match="the key must have"):
        read_keys(None)


def test_a_file_has_a_key_on_each_line(key_file, monkeypatch):
    key_file.write_text(f"{KEY}\n{'b' * 16}\n{KEY}\n")
    assert read_keys(key_file) == (KEY, "b" * 16)
    monkeypatch.setenv(LABELS_VARIABLE, "c" * 16)
    assert read_keys(None, LABELS_VARIABLE) == ("c" * 16,)
    key_file.write_text("".join(f"{i:016d}\n" for i in range(101)))
    with pytest.raises(InputError, match="at most 100 keys"):
        read_keys(key_file)


def test_keys_that_could_not_be_told_apart_are_refused():
    with pytest.raises(InputError, match="must differ"):
        Keys(ask=(KEY,), labels=(KEY,))
    for extra in ({"labels": (KEY,)}, {"admin": (KEY,)}):
        with pytest.raises(InputError, match="for asking too"):
            Keys(**extra)
    assert not Keys()


@given(rate=st.floats(0.1, 50), waits=st.lists(st.floats(0, 2), max_size=60))
def test_no_second_has_more_requests_than_twice_the_rate(rate, waits):
    """The requests at once and those of the second: a literal count over every window of a second."""
    now, taken = 0.0, []
    pace = Pace(rate, clock=lambda: now)
    for wait in waits:
        now += wait
        if pace.wait(b"key") == 0.0:
            taken.append(now)
    for start in taken:
        assert sum(start <= time < start + 1 for time in taken) <= max(rate, 1) + rate + 1e-6


@given(rate=st.floats(0.1, 50), waits=st.lists(st.floats(0, 0.2), min_size=1, max_size=60))
def test_whoever_waits_as_long_as_he_is_told_is_let_in(rate, waits):
    now = 0.0
    pace = Pace(rate, clock=lambda: now)
    for wait in waits:
        now += wait
        early = pace.wait(b"key")
        if early:
            now += early + 1e-6
            assert pace.wait(b"key") == 0.0
