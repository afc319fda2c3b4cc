"""The command: it refuses a busy machine, renders the same page from the same numbers, and keeps its file small."""

import json
import re
from pathlib import Path

import families
import page
import pytest

ROOT = Path(page.__file__).resolve().parents[1]
pytest.importorskip("matplotlib")


def arguments(monkeypatch, *words):
    monkeypatch.setattr(page.sys, "argv", ["page.py", *map(str, words)])


def test_a_busy_machine_writes_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(page.venvs, "make_all", lambda cache: ({}, {}))
    monkeypatch.setattr(page.os, "getloadavg", lambda: (3.0, 3.0, 3.0))
    monkeypatch.setattr(page, "SETTLE", 0)
    monkeypatch.setattr(page, "measure", lambda *_: pytest.fail("it measured"))
    arguments(monkeypatch, "--out", tmp_path)
    assert page.main() == 2
    assert "busy" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_waiting_ends_when_the_machine_is_quiet(monkeypatch):
    loads = iter([2.0, 1.0, 0.2])
    monkeypatch.setattr(page.os, "getloadavg", lambda: (next(loads), 0, 0))
    monkeypatch.setattr(page.time, "sleep", lambda _: None)
    assert page.wait_for_quiet(0.5, 60) == 0.2


def test_rounding_reaches_every_float_and_nothing_else():
    assert page.rounded({"a": [0.123456, 3], "b": "0.123456", "c": True}) == {
        "a": [0.1235, 3],
        "b": "0.123456",
        "c": True,
    }


def test_figures_are_the_same_bytes_again(tmp_path):
    record = {"family": "sets", "method": "lac", "threads": 1, "seconds": 1.0, "low": 0.9, "high": 1.1}
    level = {"family": "sets", "method": "lac", "package": "caveat", "error": 0.1, "error_se": 0.01}
    results = {"times": [record | {"package": p} for p in ("caveat", "floor")], "levels": [level]}
    first, second = (page.page_figures.draw_all(results, tmp_path / name) for name in ("a", "b"))
    assert [path.name for path in first] == ["benchmarks-sets.svg"]
    assert first[0].read_bytes() == second[0].read_bytes()


@pytest.mark.skipif(not (ROOT / "benchmarks" / "results.json").exists(), reason="no run is committed")
def test_the_committed_page_is_the_page_of_the_committed_numbers():
    path = ROOT / "benchmarks" / "results.json"
    assert path.stat().st_size < 200_000
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    assert text == page.page_text.page(json.loads(path.read_text()))
    for figure in re.findall(r"\((figures/.*?\.svg)\)", text):
        assert (ROOT / "docs" / figure).exists()
    assert all(f"## {family.title}" in text for family in families.FAMILIES.values())
