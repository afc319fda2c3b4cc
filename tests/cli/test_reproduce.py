from __future__ import annotations

import pytest

from caveat_lab.papers.reproductions import reproductions


def test_the_list_shows_every_study_and_what_is_missing(run, monkeypatch, tmp_path):
    monkeypatch.setenv("CAVEAT_DATA", str(tmp_path))
    code, out, _ = run("reproduce", "--list")
    assert code == 0
    for one in reproductions():
        assert one.name in out
        assert one.committed.sentence.split(";")[0] in " ".join(out.split())
    assert "usps.npz is missing. USPS digits" in out
    assert "none needed" in out


def test_openood_corrections_run_from_plan_to_comparison(run, tmp_path):
    pytest.importorskip("pyarrow")
    code, out, err = run("reproduce", "openood-corrections", "--out", tmp_path / "run")
    assert code == 0, err
    assert "159 of 218 agree" in out
    assert "The same comparison as in the committed run." in out
    folder = reproductions()[0].folder
    written = tmp_path / "run" / "summary" / "corrections.csv"
    assert written.read_text(encoding="utf-8") == (folder / "corrections.csv").read_text(encoding="utf-8")
    # Again: everything is in the store, and the result is the same.
    again = run("reproduce", "openood-corrections", "--out", tmp_path / "run")
    assert again[1] == out


def test_missing_data_is_exit_code_2_with_the_file_and_its_origin(run, monkeypatch, tmp_path):
    monkeypatch.setenv("CAVEAT_DATA", str(tmp_path))
    code, _, err = run("reproduce", "usps", "--out", tmp_path / "run")
    assert code == 2
    assert "usps needs usps.npz" in err
    assert "usps.h5" in err
    assert not (tmp_path / "run").exists()


def test_a_failing_cell_is_exit_code_1_and_compares_nothing(run, monkeypatch, tmp_path):
    pytest.importorskip("pyarrow")
    monkeypatch.setenv("CAVEAT_DATA", str(tmp_path))
    (tmp_path / "usps.npz").write_bytes(b"no archive")
    code, out, err = run("reproduce", "usps", "--out", tmp_path / "run")
    assert code == 1
    assert "failed: metric=euclidean" in err
    assert "6 of 6 cells failed" in out
    assert not (tmp_path / "run" / "summary").exists()


def test_bad_names_are_exit_code_2(run):
    assert "Did you mean 'usps'" in run("reproduce", "usp")[2]
    assert run("reproduce", "usp")[0] == 2
    assert "--list shows them" in run("reproduce")[2]


def test_the_page_is_written(run, tmp_path):
    assert run("reproduce", "--docs", tmp_path / "page.md")[0] == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8").startswith("# What the papers report")
