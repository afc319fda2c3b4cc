"""Reports: one page, one plot engine and one set of tables for evaluations, studies and certificates."""

from caveat.report.page import render_report
from caveat.report.tables import comparison_latex, comparison_markdown
from caveat.report.write import ReportFiles, write_report

__all__ = ["ReportFiles", "comparison_latex", "comparison_markdown", "render_report", "write_report"]
