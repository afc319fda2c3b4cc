from __future__ import annotations

import pytest

from caveat.errors import InputError
from caveat.report import render_report, write_report


def test_files_hold_what_is_rendered(evaluation, tmp_path):
    files = write_report(evaluation, tmp_path / "out", title="Mine")
    assert [path.name for path in (files.html, files.markdown, files.latex)] == [
        "report.html",
        "tables.md",
        "tables.tex",
    ]
    assert files.markdown.read_text(encoding="utf-8").startswith("# Mine\n")
    same = write_report(evaluation.findings(), tmp_path / "again", name="certificates")
    page, markdown, latex = render_report(evaluation.findings())
    assert same.html.read_text(encoding="utf-8") == page
    assert same.markdown.name == "certificates.md"
    assert same.latex.read_text(encoding="utf-8") == latex
    assert same.markdown.read_text(encoding="utf-8") == markdown


def test_an_evaluation_needs_a_folder(evaluation):
    with pytest.raises(InputError, match="folder"):
        write_report(evaluation)


def test_a_path_is_not_read(tmp_path):
    with pytest.raises(InputError, match="results of a study"):
        write_report(tmp_path)
