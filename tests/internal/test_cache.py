from __future__ import annotations

import json
from pathlib import Path

import pytest

from caveat._internal.cache import cache_folder, remembered


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAVEAT_CACHE", str(tmp_path))


class Counter:
    def __init__(self, value: float = 0.25) -> None:
        self.calls, self.value = 0, value

    def __call__(self) -> dict[str, float]:
        self.calls += 1
        return {"eta": self.value}


def test_second_time_is_read_from_disk(tmp_path):
    compute = Counter(0.1 + 0.2)
    assert remembered("bands/x", compute) == remembered("bands/x", compute) == {"eta": 0.1 + 0.2}
    assert compute.calls == 1
    assert [path.name for path in (tmp_path / "bands").iterdir()] == ["x.json"]  # and no temporary file is left


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[1, 2]",
        lambda text: text.replace("0.25", "0.26"),  # a plausible number with the wrong checksum
        lambda text: text.replace('"eta"', '"zeta"'),
        lambda text: json.dumps({"key": "x"}),
    ],
)
def test_damaged_file_is_computed_again_and_mended(tmp_path, damage):
    compute = Counter()
    remembered("x", compute)
    path = tmp_path / "x.json"
    path.write_text(damage(path.read_text()))
    assert remembered("x", compute) == {"eta": 0.25}
    assert compute.calls == 2
    remembered("x", compute)
    assert compute.calls == 2


def test_file_of_another_key_is_not_believed(tmp_path):
    remembered("a", Counter())
    (tmp_path / "b.json").write_text((tmp_path / "a.json").read_text())
    assert remembered("b", Counter(0.5)) == {"eta": 0.5}


def test_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("CAVEAT_CACHE", str(blocked))
    assert remembered("x", Counter()) == {"eta": 0.25}


def test_where_the_folder_is(tmp_path, monkeypatch):
    assert cache_folder() == tmp_path
    monkeypatch.delenv("CAVEAT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "caveat"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "caveat"


def test_a_user_without_a_home_costs_time_and_no_more(monkeypatch):
    """A container may run as a number that has neither HOME nor an entry among the users."""
    monkeypatch.delenv("CAVEAT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    compute = Counter()
    assert remembered("bands/x", compute) == remembered("bands/x", compute) == {"eta": 0.25}
    assert compute.calls == 2
