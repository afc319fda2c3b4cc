from __future__ import annotations


def test_the_demo_prints_a_table_and_writes_the_report(run, tmp_path):
    code, out, _ = run("demo", "--out", tmp_path / "demo")
    assert code == 0
    assert "mahalanobis" in out
    assert str(tmp_path / "demo" / "report.html") in out
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
