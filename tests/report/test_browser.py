"""Pages in headless Chromium: the first screen, paper, phone, dark, sorting, switches, filters, pickers, pointer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from caveat.demo.network import demo_outputs
from caveat.report import write_report

pytestmark = pytest.mark.browser
STYLE = "(e, what) => getComputedStyle(e)[what]"


@pytest.fixture(scope="module")
def pages(findings, without_outliers, study, odd, certified, checks, tmp_path_factory) -> dict[str, Path]:
    from caveat.evaluation import evaluate

    folder = tmp_path_factory.mktemp("pages")
    digits = demo_outputs(0)
    demo = evaluate(
        train=digits.train, calibration=digits.calibration, inlier=digits.inlier, outliers=digits.outliers,
        regimes={name: name.partition(":")[0] for name in digits.outliers}, title="The demonstration: digits 0 to 7",
    )  # fmt: skip
    kinds = {"demo": demo.findings(), "plain": findings, "without": without_outliers, "study": study, "odd": odd,
             "certified": certified, **checks}  # fmt: skip
    return {name: write_report(found, folder / name).html for name, found in kinds.items()}


def column(page: Any, table: str, number: int) -> list[str]:
    return page.locator(f"#{table} tbody tr:not(.group) > :nth-child({number})").all_inner_texts()


@pytest.mark.parametrize("name", ["demo", "without", "study", "certified", "sound", "drifted", "bare"])
def test_the_first_screen_fits_1300_by_900(open_page, name):
    page = open_page(name)
    bottoms = page.locator("#first .card").evaluate_all("a => a.map(e => e.getBoundingClientRect().bottom)")
    assert max(bottoms) <= 900
    tops = page.locator("svg.chart").evaluate_all("a => a.map(e => e.getBoundingClientRect().top)")
    assert min(tops) < 200
    assert page.locator("#first svg.chart").count() >= {"study": 1, "certified": 1, "bare": 2}.get(name, 3)


@pytest.mark.parametrize("name", ["demo", "drifted"])
def test_no_paragraph_of_the_first_screen_is_longer_than_three_lines(open_page, name):
    page = open_page(name)
    lines = page.locator("#first p, header p, #first small").evaluate_all(
        "a => a.map(e => e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight))"
    )
    assert max(lines) < 3.6  # padding and rule of the last one


def test_the_demonstration_has_few_words_and_six_printed_pages_at_most(open_page, tmp_path):
    page = open_page("demo", scheme="dark")
    assert len(page.locator("body").inner_text().split()) <= 1800
    path = tmp_path / "report.pdf"
    page.pdf(path=path, prefer_css_page_size=True)
    content = path.read_bytes()
    boxes = [tuple(float(n) for n in box.split()) for box in re.findall(rb"/MediaBox \[([\d. ]+)\]", content)]
    assert boxes[0][2:] == pytest.approx((595, 842), abs=1.5)  # A4 in points
    (count,) = re.findall(rb"/Type /Pages\s*/Count (\d+)", content)
    assert int(count) <= 6
    page.emulate_media(media="print")
    assert luminance(page.locator("body").evaluate(STYLE, "color")) < 0.05  # ink on paper, even if the screen is dark
    assert page.locator(".control:visible, nav:visible").count() == 0
    headers = page.locator("section > h2").evaluate_all("a => a.map(e => getComputedStyle(e).breakAfter)")
    assert set(headers) == {"avoid"}
    assert page.locator("details[open]").count() == 0


@pytest.mark.parametrize("name", ["demo", "without", "study", "odd", "certified", "drifted", "bare"])
def test_the_page_never_scrolls_sideways(open_page, name):
    page = open_page(name)
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    for width in (390, 1300, 1900):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_wide_screens_are_used(open_page):
    page = open_page("demo", width=1900)
    lefts = page.locator("#first .card").evaluate_all("a => a.map(e => Math.round(e.getBoundingClientRect().left))")
    assert len(set(lefts)) == 3


def luminance(color: str) -> float:
    red, green, blue = (float(part) / 255 for part in re.findall(r"[\d.]+", color)[:3])
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out(open_page, scheme):
    page = open_page("demo", scheme=scheme)
    paper = page.locator("body").evaluate(STYLE, "backgroundColor")
    card = page.locator(".card").first.evaluate(STYLE, "backgroundColor")
    assert (luminance(paper) < 0.1) == (scheme == "dark")
    for selector in (
        ".sub",
        "h2",
        ".rule",
        ".cap",
        ".promises small",
        ".not",
        ".mark",
        "figcaption",
        "dd",
        "select",
        "a",
    ):
        color = page.locator(selector).first.evaluate(STYLE, "color")
        assert min(contrast(color, paper), contrast(color, card)) >= 4.5, selector  # WCAG 2.1, 1.4.3
    assert contrast(page.locator("svg.chart text").first.evaluate(STYLE, "fill"), card) >= 4.5
    for line in page.locator("#roc svg.chart").first.locator(".series:visible .line").all():
        assert contrast(line.evaluate(STYLE, "stroke"), paper) >= 3  # WCAG 2.1, 1.4.11


def test_lines_differ_by_more_than_color(open_page):
    page = open_page("demo")
    dashes = page.locator("#roc .legend path").evaluate_all("a => a.map(e => getComputedStyle(e).strokeDasharray)")
    assert len(set(dashes)) == len(dashes) == 6


def test_sorting_by_a_number_and_back(open_page):
    page = open_page("plain")
    page.locator("#numbers summary", has_text="Ranking").click()
    names = column(page, "ranking-table", 2)
    assert len(names) == 7
    button = page.locator("#ranking-table thead th").nth(3).locator("button")
    button.click()
    assert column(page, "ranking-table", 2) == names[::-1]
    button.click()
    assert column(page, "ranking-table", 2) == names


def test_switches_hide_a_curve_and_another_can_take_its_place(open_page):
    page = open_page("plain")
    first = page.locator("#roc svg.chart").first
    assert first.locator(".series:visible").count() == 6
    offer = page.locator("#roc [data-offer]")
    assert offer.is_disabled()
    page.locator("#roc [data-switch='1']").click()
    assert first.locator(".series:visible").count() == 5
    assert page.locator("#risk [data-switch='1']").get_attribute("aria-pressed") == "false"
    offer.select_option(value="6")
    assert first.locator(".series[data-series='6']").get_attribute("class") == "series slot-2"  # the style now free
    assert first.locator(".series:visible").count() == 6


def test_filters_leave_one_model_and_one_regime(open_page):
    page = open_page("study")
    assert page.locator("#roc figure:visible").count() == 4
    page.select_option("[data-filter='regime']", label="far")
    assert page.locator("#roc figure:visible").count() == 2
    page.select_option("[data-filter='model']", label="vgg")
    assert page.locator("#roc figure:visible figcaption").all_inner_texts() == ["vgg: distant far"]


def test_a_picker_shows_one_histogram(open_page):
    page = open_page("plain")
    page.locator("#histograms summary").click()
    page.select_option("[data-picks]", index=2)
    shown = page.locator("#histograms .picked figure:visible")
    assert shown.count() == 1
    assert shown.locator("svg > title").text_content() == page.locator("[data-picks] option").nth(2).inner_text()


def test_a_pointer_reads_values(open_page):
    page = open_page("plain")
    chart = page.locator("#roc svg.chart").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    # The axes lie between 56 and 322 of 340 pixels: half way is 50 % of the inliers.
    page.mouse.move(box["x"] + box["width"] * (56 + 322) / 2 / 340, box["y"] + box["height"] / 2)
    lines = page.locator("#tip").inner_text().splitlines()
    assert lines[0] == "Inliers rejected 50.0 %"
    assert len(lines) == 7
    dot = page.locator("#first .dot").first
    dot.hover()
    assert page.locator("#tip").inner_text() == dot.get_attribute("data-tip")


def test_without_scripts_everything_can_be_read(open_page):
    page = open_page("plain", scripts=False)
    assert page.locator(".control:visible").count() == 0
    assert page.locator("#roc svg.chart").first.locator(".series:visible").count() == 6


def test_a_name_cannot_run(open_page):
    page = open_page("odd")
    assert page.evaluate("document.scripts.length") == 1
    assert "<script>alert(1)</script>" in page.locator("#roc").inner_text()
    assert page.locator("h1").inner_text().startswith("<i>odd</i> & co")


def test_the_check_of_a_guard_prints_on_two_pages_and_names_its_values(open_page, tmp_path):
    page = open_page("drifted")
    assert page.locator("#first .rule").inner_text().startswith("Alarm: inputs at row")
    dot = page.locator("#first .evidence .dot").first
    dot.hover()
    assert page.locator("#tip").inner_text() == dot.get_attribute("data-tip")
    page.pdf(path=tmp_path / "check.pdf", prefer_css_page_size=True)
    (count,) = re.findall(rb"/Type /Pages\s*/Count (\d+)", (tmp_path / "check.pdf").read_bytes())
    assert int(count) <= 2


def test_a_phone_shows_decision_then_what_it_rejects_then_the_ranking(open_page):
    page = open_page("plain", width=390)
    tops = {key: page.locator(f".card.{key}").bounding_box()["y"] for key in ("decision", "caught", "forest")}
    assert tops["decision"] < tops["caught"] < tops["forest"]
    page = open_page("study", width=390)
    assert page.locator(".card.decisions").bounding_box()["y"] < page.locator(".card.forest").bounding_box()["y"]
