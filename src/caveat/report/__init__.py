"""Reports: what was measured, in words, tables and figures, for someone who was not there."""

from caveat.report.html import render_html, write_html

__all__ = ["render_html", "write_html"]
