from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_the_demo_certifies_where_torch_is(run, tmp_path):
    code, out, _ = run("demo", "--out", tmp_path / "demo", "--seed", "1")
    assert code == 0
    assert "certified: radius 0.3" in out
    assert "uniform noise" in out
    assert (tmp_path / "demo" / "certificates.html").stat().st_size > 10_000


def test_the_demo_prints_a_table_and_writes_the_report_and_needs_no_torch(run, tmp_path, monkeypatch):
    monkeypatch.setattr("caveat_lab.cli.demo.find_spec", lambda name: None)
    before = "torch" in sys.modules
    code, out, _ = run("demo", "--out", tmp_path / "demo")
    assert code == 0
    assert "mahalanobis" in out
    assert str(tmp_path / "demo" / "report.html") in out
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
    assert "certified" not in out
    assert not (tmp_path / "demo" / "certificates.html").exists()
    assert ("torch" in sys.modules) == before
    commands = [shlex.split(line)[1:] for line in out.splitlines() if line.startswith("  caveat guard check")]
    (serve,) = (shlex.split(line) for line in out.splitlines() if line.startswith("  caveat serve"))
    assert (Path(serve[2]) / "guard.json").is_file()
    assert [run(*command)[0] for command in commands] == [0, 3]  # held-out digits, covered digits
    assert (tmp_path / "demo" / "check-drifted" / "report.html").exists()
