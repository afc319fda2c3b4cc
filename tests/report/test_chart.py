"""Charts: points land where the axes say, paths can be read back, and names stay text."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat.report.chart import Axis, Chart, nice_ticks


def plain(**options) -> Chart:
    return Chart("k", Axis(0, 1, "x"), Axis(0, 1, "y"), size=(120, 110), margins=(5, 10, 5, 10), **options)


def points(path: str) -> np.ndarray:
    """Absolute points of a path, in pixels: what the page's script reads."""
    found = [int(n) for n in re.findall(r"-?\d+", path)]
    return np.cumsum(np.reshape(found, (-1, 2)), axis=0) / 10


def test_points_land_where_the_axes_say():
    chart = plain()  # 100 x 100 pixels from (10, 5)
    assert chart.at(0, 0) == (10, 105)
    assert chart.at(1, 1) == (110, 5)
    assert chart.at(0.25, 0.5) == (35, 55)


def test_a_path_by_hand():
    # (0, 0) (0.5, 0) (1, 0) (1, 1): one step along, one up, in tenths of a pixel.
    path = plain().curve(np.array([0, 0.5, 1, 1]), np.array([0.0, 0, 0, 1]))
    assert path == '<path class="line" d="M100 1050l1000 0 0-1000"/>'


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40))
def test_a_path_ends_and_turns_where_the_curve_does(pairs):
    x, y = np.array(pairs).T
    chart = plain()
    found = points(chart.curve(x, y))
    first, last = chart.at(x[0], y[0]), chart.at(x[-1], y[-1])
    assert found[0] == pytest.approx(first, abs=0.051)
    assert found[-1] == pytest.approx(last, abs=0.051)


def test_a_curve_of_many_points_reads_back_within_a_tenth_of_a_pixel():
    x = np.linspace(0, 1, 101)
    y = x**0.3
    chart = plain()
    found = points(chart.curve(x, y))
    expected = np.array([chart.at(a, b) for a, b in zip(x, y, strict=True)])
    read = np.interp(expected[:, 0], found[:, 0], found[:, 1])
    assert np.abs(read - expected[:, 1]).max() < 0.11


def test_points_that_are_not_numbers_are_left_out():
    path = plain().curve(np.array([0, 0.5, 1]), np.array([0, np.nan, 1]))
    assert "nan" not in path
    assert plain().curve(np.array([0.0]), np.array([np.nan])) == '<path class="line" d="M0 0"/>'


def test_the_picture_is_xml_with_title_and_description_and_says_its_axes():
    chart = plain()
    chart.series(3, "<b> & co", chart.curve(np.array([0, 1.0]), np.array([0, 1.0])), slot=2)
    chart.series(9, "later", chart.curve(np.array([0, 1.0]), np.array([0, 1.0])), slot=0)
    chart.dot(0.5, 0.5, 'half "way"')
    found = chart.panel("A <i> title", "what it shows")
    root = ElementTree.fromstring(found.svg)
    assert root.find("title").text == "A <i> title"
    assert root.find("desc").text == "what it shows"
    assert root.get("data-x") == "10 110 0 1"
    assert root.get("data-y") == "105 5 0 1"
    series = [g for g in root.iter("g") if g.get("data-series")]
    assert [(g.get("class"), g.get("data-name")) for g in series] == [
        ("series slot-2", "<b> & co"),
        ("series off", "later"),
    ]
    assert next(root.iter("circle")).get("data-tip") == 'half "way"'


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_ticks_are_few_and_inside(low, width):
    found = nice_ticks(low, low + width)
    assert 2 <= len(found) <= 7
    assert low - 1e-6 * width <= found[0]
    assert found[-1] <= low + width * (1 + 1e-6)


def test_an_axis_writes_shares_and_minus_signs():
    assert Axis(0, 1, percent=True).write(0.2) == "20 %"
    assert Axis(-1, 1).write(-0.5) == "−0.5"
