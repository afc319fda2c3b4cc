"""The page in a real browser: headless Chromium, no network, light and dark, wide and narrow, and on paper."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from caveat import report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(evaluation, crowd_source, unlabelled, run, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    odd = run({"<script>alert(1)</script>": 1.0, "no_space_in_this_name" * 8: 2.0}, n=60, title="<b>odd</b>" * 20)
    for name, result in {"plain": evaluation, "unlabelled": unlabelled, "odd": odd}.items():
        report.write_html(result, folder / f"{name}.html")
    (folder / "crowd.html").write_text(crowd_source, encoding="utf-8")
    return {path.stem: path for path in folder.iterdir()}


def column(page: Any, table: str, number: int) -> list[str]:
    return page.locator(f"#{table} tbody tr:not(.group) > :nth-child({number})").all_inner_texts()


def test_sorting_by_a_number_and_back(open_page, evaluation):
    page = open_page("plain")
    head = page.locator("#ranking-table thead th").nth(2)
    expected = [line.score for line in evaluation.ranking]
    assert column(page, "ranking-table", 2) == expected
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(page, "ranking-table", 2) == expected[::-1]
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert column(page, "ranking-table", 2) == expected


def test_sorting_by_name_stays_within_each_outlier_set(open_page, evaluation):
    page = open_page("plain")
    page.locator("#detection-table thead th").nth(1).locator("button").click()
    names = sorted(line.score for line in evaluation.ranking)
    assert column(page, "detection-table", 2) == names * len(evaluation.outliers)


def test_the_filter_leaves_one_outlier_set(open_page, evaluation):
    page = open_page("plain")
    assert page.locator("#roc figure:visible").count() == 2
    page.select_option("#outlier-filter", label="far")
    assert page.locator("#roc figure:visible figcaption").all_inner_texts() == ["far"]
    assert page.locator("#detection-table tbody:visible tr.group").all_inner_texts() == ["far"]
    assert page.locator("#ranking-table th:visible[data-outlier]").count() == 1
    assert page.locator("#ranking-table td:visible[data-outlier]").count() == len(evaluation.ranking)
    page.select_option("#outlier-filter", value="")
    assert page.locator("#roc figure:visible").count() == 2


def test_the_picker_shows_one_histogram(open_page, evaluation):
    page = open_page("plain")
    assert page.locator("#histogram-list svg:visible").count() == 1
    second = evaluation.ranking[1].score
    page.select_option("#score-picker", label=second)
    shown = page.locator("#histogram-list svg:visible")
    assert shown.count() == 1
    assert shown.locator("> title").text_content() == second


def test_without_scripts_everything_can_be_read(open_page, evaluation):
    page = open_page("plain", scripts=False)
    assert page.locator(".control:visible").count() == 0
    assert page.locator("#detection-table tbody:visible").count() == len(evaluation.outliers)
    assert page.locator("#histogram-list summary:visible").count() == len(evaluation.ranking)
    page.locator("#histogram-list summary").nth(1).click()
    assert page.locator("#histogram-list svg:visible").count() == 2


@pytest.mark.parametrize("name", ["plain", "crowd", "unlabelled", "odd"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_scrolls_sideways(open_page, name, width):
    page = open_page(name, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def luminance(color: str) -> float:
    """Relative luminance of a computed CSS colour, WCAG 2.1."""
    red, green, blue = (float(part) / 255 for part in re.findall(r"[\d.]+", color)[:3])
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_by_hand():
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out(open_page, scheme):
    page = open_page("plain", scheme=scheme)
    style = "(e, what) => getComputedStyle(e)[what]"
    paper = page.locator("body").evaluate(style, "backgroundColor")
    assert (luminance(paper) < 0.1) == (scheme == "dark")
    for selector in (".headline", "h2", "caption", ".interval", "td", "a", "figcaption", "dd", "select"):
        color = page.locator(selector).first.evaluate(style, "color")
        assert contrast(color, paper) >= 4.5, selector  # WCAG 2.1, 1.4.3
    assert contrast(page.locator("svg.figure text").first.evaluate(style, "fill"), paper) >= 4.5
    lines = page.locator("#roc .series path")
    assert lines.count() == 8
    for i in range(4):
        assert contrast(lines.nth(i).evaluate(style, "stroke"), paper) >= 3  # WCAG 2.1, 1.4.11


def test_lines_differ_by_more_than_colour(open_page):
    page = open_page("plain")
    dashes = [
        swatch.evaluate("e => getComputedStyle(e).strokeDasharray")
        for swatch in page.locator("#roc .legend path").all()
    ]
    assert len(set(dashes)) == len(dashes) == 4


def test_a_name_cannot_run(open_page):
    page = open_page("odd")
    assert page.evaluate("document.scripts.length") == 1
    assert "<script>alert(1)</script>" in page.locator("#roc figcaption").first.inner_text()


@pytest.mark.parametrize("name", ["plain", "unlabelled"])
def test_it_prints(open_page, name, tmp_path):
    page = open_page(name, scheme="dark")
    path = tmp_path / "report.pdf"
    page.pdf(path=path, prefer_css_page_size=True)
    content = path.read_bytes()
    assert content.startswith(b"%PDF")
    boxes = {tuple(float(n) for n in box.split()) for box in re.findall(rb"/MediaBox \[([\d. ]+)\]", content)}
    assert len(boxes) == 1
    assert boxes.pop()[2:] == pytest.approx((595, 842), abs=1.5)  # A4 in points
    page.emulate_media(media="print")
    style = "(e, what) => getComputedStyle(e)[what]"
    assert luminance(page.locator("body").evaluate(style, "color")) < 0.05  # ink on paper, even if the screen is dark
    assert page.locator(".control:visible, nav:visible").count() == 0
