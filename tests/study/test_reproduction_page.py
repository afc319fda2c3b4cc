from __future__ import annotations

from pathlib import Path

from caveat.study.reproduction_page import reproduction_page
from caveat.study.reproductions import reproductions

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_committed_page_is_what_the_studies_say():
    """If this fails: caveat reproduce --docs docs/reproduction.md."""
    assert (DOCS / "reproduction.md").read_text(encoding="utf-8") == reproduction_page(reproductions())


def test_every_difference_stands_on_the_page_with_its_reason():
    page = reproduction_page(reproductions())
    assert "not explained" not in page.lower()
    for one in reproductions():
        assert f"\n## {one.name}\n" in page
        assert f"    caveat reproduce {one.name}\n" in page
        for part in one.committed.parts:
            for check in part.differences:
                assert check.what in page
                assert check.why[1:].rstrip(".") in page
