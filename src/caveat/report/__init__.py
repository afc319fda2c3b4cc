"""Reports: what was measured, in words, tables and figures, for someone who was not there."""

from caveat.report.html import render_html, write_html
from caveat.report.study import StudyFiles, write_study

__all__ = ["StudyFiles", "render_html", "write_html", "write_study"]
