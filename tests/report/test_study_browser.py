"""The page of a study in headless Chromium: filters, switches, pickers, sorting, hover, phone, dark, paper."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from caveat import report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(small_study, single_study, study_store, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("studies")
    many = study_store(folder / "run", scores={f"score_{i:02d}": 0.3 + 0.05 * i for i in range(30)}, seeds=(0, 1))
    odd = study_store(folder / "odd_run", scores={"<script>alert(1)</script>": 1.0, "no_space_in_this" * 9: 0.5},
                      sets={"<b>" * 30: "near", "x" * 200: "far"}, title="<i>odd</i>" * 20)  # fmt: skip
    return {
        name: report.write_study(store, folder / name).html
        for name, store in {"small": small_study, "single": single_study, "many": many, "odd": odd}.items()
    }


def column(page: Any, table: str, number: int) -> list[str]:
    return page.locator(f"#{table} tbody tr:not(.group):visible > :nth-child({number})").all_inner_texts()


def test_sorting_by_a_number_and_back(open_page):
    page = open_page("small")
    names = column(page, "ranking-table", 2)
    assert len(names) == 8
    head = page.locator("#ranking-table thead th").nth(3)
    head.locator("button").click()
    assert column(page, "ranking-table", 2) == names
    head.locator("button").click()
    assert column(page, "ranking-table", 2) == names[::-1]


def test_filters_leave_one_regime_one_model_and_one_family(open_page):
    page = open_page("small")
    assert page.locator("#roc figure:visible").count() == 12
    page.select_option("#filter-regime", label="far")
    assert page.locator("#roc figure:visible").count() == 4
    assert page.locator("#differences figure:visible").count() == 2  # all, and far
    assert page.locator("#regimes-table th:visible[data-regime]").count() == 1
    assert page.locator("#headline dt:visible").all_inner_texts() == ["far", "errors"]
    assert set(
        page.locator("#clique-list details[open] .column:visible").evaluate_all("a => a.map(g => g.dataset.regime)")
    ) == {"far", ""}
    page.select_option("#filter-source", label="vgg13")
    assert page.locator("#roc figure:visible figcaption").all_inner_texts() == ["vgg13: mnist far", "vgg13: noise far"]
    page.select_option("#filter-family", label="logits")
    assert set(column(page, "ranking-table", 3)) == {"logits"}
    for name in ("regime", "source", "family"):
        page.select_option(f"#filter-{name}", value="")
    assert page.locator("#roc figure:visible").count() == 12
    assert len(column(page, "ranking-table", 2)) == 8


def test_switches_hide_a_curve_and_another_can_take_its_place(open_page):
    page = open_page("small")
    first = page.locator("#roc svg.chart").first
    assert first.locator(".series:visible").count() == 6
    offer = page.locator("#roc [data-offer]")
    assert offer.is_disabled()
    button = page.locator("#roc [data-switch='1']")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert first.locator(".series:visible").count() == 5
    assert page.locator("#risk [data-switch='1']").get_attribute("aria-pressed") == "false"
    offer.select_option(value="7")
    shown = first.locator(".series[data-series='7']")
    assert shown.get_attribute("class") == "series slot-2"  # the style that became free
    assert first.locator(".series:visible").count() == 6
    assert page.locator("#roc [data-switch='7']").inner_text().strip() == shown.get_attribute("data-name")
    styles = page.locator("#roc .switches button[aria-pressed='true'] svg").evaluate_all(
        "a => a.map(s => s.classList[1])"
    )
    assert len(set(styles)) == 6
    page.locator("#risk [data-switch='7']").click()
    assert first.locator(".series:visible").count() == 5


def test_bands_can_be_taken_away(open_page):
    page = open_page("small")
    area = page.locator("#roc .series:not(.off) .area").first
    assert area.is_visible()
    page.locator("#roc [data-bands]").uncheck()
    assert not area.is_visible()


def test_a_pointer_reads_values(open_page):
    page = open_page("small")
    chart = page.locator("#roc svg.chart").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    # The axes lie between 56 and 322 of 340 pixels: half way is 50 % of the inliers.
    page.mouse.move(box["x"] + box["width"] * (56 + 322) / 2 / 340, box["y"] + box["height"] / 2)
    lines = page.locator("#tip").inner_text().splitlines()
    assert lines[0] == "Inliers rejected 50.0 %"
    assert len(lines) == 7
    values = [float(re.search(r": ([\d.]+) %$", line)[1]) for line in lines[1:]]
    assert values == sorted(values, reverse=True)
    assert 80 < values[0] <= 100
    page.mouse.move(2, 2)
    assert not page.locator("#tip").is_visible()
    dot = page.locator("#cliques details[open] .dot").first
    dot.hover()
    assert page.locator("#tip").inner_text() == dot.get_attribute("data-tip")


def test_the_pickers_show_one_picture(open_page):
    page = open_page("small")
    for picker, section in (("clique-picker", "cliques"), ("score-picker", "histograms")):
        assert page.locator(f"#{section} svg.chart:visible").count() == 1
        page.select_option(f"#{picker}", index=1)
        shown = page.locator(f"#{section} svg.chart:visible")
        assert shown.count() == 1
        chosen = page.locator(f"#{picker} option").nth(1).inner_text()
        assert shown.locator("> title").text_content() == chosen


def test_a_long_table_opens_and_closes(open_page):
    page = open_page("many")
    assert len(column(page, "ranking-table", 2)) == 25
    button = page.locator("#ranking .expand").first
    assert button.inner_text() == "Show 5 more rows"
    button.click()
    assert len(column(page, "ranking-table", 2)) == 30
    button.click()
    page.locator("#ranking-table thead th").nth(3).locator("button").click()
    page.locator("#ranking-table thead th").nth(3).locator("button").click()
    assert column(page, "ranking-table", 2)[0] == "score_00"  # the worst first, and still 25
    assert len(column(page, "ranking-table", 2)) == 25


def test_without_scripts_everything_can_be_read(open_page):
    page = open_page("many", scripts=False)
    assert page.locator(".control:visible").count() == 0
    assert len(column(page, "ranking-table", 2)) == 30
    assert page.locator("#roc svg.chart").first.locator(".series:visible").count() == 6


@pytest.mark.parametrize("name", ["small", "single", "many", "odd"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_scrolls_sideways(open_page, name, width):
    page = open_page(name, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_name_cannot_run(open_page):
    page = open_page("odd")
    assert page.evaluate("document.scripts.length") == 1
    assert "<script>alert(1)</script>" in page.locator("#ranking-table").inner_text()
    assert page.locator("h1").inner_text() == "<i>odd</i>" * 20


def test_dark_is_dark_and_lines_differ_by_more_than_colour(open_page):
    page = open_page("small", scheme="dark")
    paper = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    assert max(float(part) for part in re.findall(r"[\d.]+", paper)[:3]) < 60
    lines = page.locator("#roc .switches path").all()
    dashes = [line.evaluate("e => getComputedStyle(e).strokeDasharray") for line in lines]
    colours = [line.evaluate("e => getComputedStyle(e).stroke") for line in lines]
    assert len(set(dashes)) == len(set(colours)) == 6


@pytest.mark.parametrize("name", ["small", "single"])
def test_it_prints_with_every_section(open_page, name, tmp_path):
    page = open_page(name, scheme="dark")
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.locator(".control:visible, nav:visible, .expand:visible").count() == 0
    for section in page.locator("main > section").all():
        assert section.locator("h2").is_visible()
    assert page.locator("#roc svg.chart:visible").count() == page.locator("#roc svg.chart").count() > 0
    color = page.locator("body").evaluate("e => getComputedStyle(e).color")
    assert color == "rgb(0, 0, 0)"
