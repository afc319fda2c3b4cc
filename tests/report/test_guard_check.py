"""The page of a guard's check: verdict, promises, numbers, escaping, the same bytes."""

from __future__ import annotations

import pytest

from caveat import InputError
from caveat.report import render_report, write_report


@pytest.fixture(scope="module")
def texts(checks):
    return {name: render_report(check) for name, check in checks.items()}


def test_a_sound_page_says_so_and_shows_every_promise(checks, texts, parse):
    page = parse(texts["sound"][0])
    assert "Sound: no alarm." in page.text
    assert [attrs.get("aria-label") for _, attrs in page.tags if attrs.get("class") == "mark"] == ["in order"] * 4
    for promise in checks["sound"].guard.promises:
        assert str(promise) in page.text
    assert checks["sound"].guard.fingerprint in page.text
    charts = [attrs for tag, attrs in page.tags if tag == "svg" and "chart" in (attrs.get("class") or "")]
    assert len(charts) == 3
    assert all(attrs["role"] == "img" and attrs["aria-labelledby"] for attrs in charts)


def test_a_drifted_page_names_the_alarm_and_its_row(checks, texts, parse):
    page, check = parse(texts["drifted"][0]), checks["drifted"]
    row = check.evidence["score"].alarmed_at
    assert row > 300
    assert check.sentence() in page.text
    assert f"rang at row {row:,}" in page.text
    assert "look here" in {attrs.get("aria-label") for _, attrs in page.tags if attrs.get("class") == "mark"}
    assert "more than chance allows" in page.text


def test_tables_hold_the_numbers(checks, texts, parse):
    page, check = parse(texts["sound"][0]), checks["sound"]
    counts = page.values("verdicts-table")[1:]
    assert counts == [[n, n / check.n] for n in check.counts.values()]
    bars = page.values("bars-table")[1:]
    columns = zip(check.histogram.counts, check.histogram.least, check.histogram.most, strict=True)
    assert bars == [list(map(float, column)) for column in columns]
    evidence = page.values("evidence-table")[1:]
    assert [row[0] for row in evidence] == [e.now for e in check.evidence.values()]


def test_without_labels_there_is_no_empty_box(texts, parse):
    page = parse(texts["bare"][0])
    assert "Errors among the accepted" not in page.text
    assert "Drift in numbers" in page.text
    ids = [attrs["id"] for _, attrs in page.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))


def test_names_are_escaped_in_every_format(texts):
    page, markdown, latex = texts["bare"]
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co" in page
    assert "<script>" not in markdown
    assert r"\textless{}script" in latex.splitlines()[0]


def test_the_same_check_gives_the_same_bytes_and_a_title_can_be_given(checks, texts, tmp_path):
    files = write_report(checks["sound"], tmp_path)
    assert files.html.read_text(encoding="utf-8") == texts["sound"][0]
    assert files.markdown.read_text(encoding="utf-8") == texts["sound"][1]
    assert files.latex.read_text(encoding="utf-8") == texts["sound"][2]
    other = write_report(checks["sound"], tmp_path, title="Monday")
    assert "<h1>Monday</h1>" in other.html.read_text(encoding="utf-8")


def test_anything_else_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(InputError, match="Findings or a Replay"):
        render_report(7)
    with pytest.raises(InputError, match="an Evaluation"):
        write_report(7, tmp_path)
