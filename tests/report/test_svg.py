"""A drawing becomes inline SVG that belongs to its page: its colours, its font, ids of its own, names as text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import matplotlib as mpl
import pytest

from caveat.report import svg


def draw(axes) -> None:
    for line in svg.LINES:
        (drawn,) = axes.plot([0, 1, 2], [0, 1, 4], color=line.color)
    drawn.set_gid("last")
    axes.axhline(1, color=svg.INK)
    axes.text(0, 0, svg.token(0), color=svg.INK)
    axes.text(1, 1, svg.token(1), color=svg.MUTED)


def panel(key: str = "k", **options) -> svg.Panel:
    given = {"title": "t", "description": "d", "texts": ("one", "two"), "hovers": {"last": "a line"}} | options
    return svg.panel(draw, key=key, **given)


def ids(source: str) -> set[str]:
    return set(re.findall(r' id="([^"]*)"', source))


def test_it_takes_ink_colours_and_font_from_the_page():
    source = panel().svg
    assert re.findall(r"#[0-9a-f]{6}\b", source) == []
    assert {f"var(--line-{i})" for i in range(1, 7)} <= set(re.findall(r"var\([^)]*\)", source))
    assert "currentColor" in source
    assert "font-family" not in source
    assert "http" not in source
    assert "<style" not in source  # it would reach the whole page


def test_the_same_drawing_gives_the_same_bytes():
    assert panel() == panel()


def test_ids_are_its_own_and_whole():
    one, two = panel("one").svg, panel("two").svg
    assert not ids(one) & ids(two)
    assert set(re.findall(r"url\(#([^)]*)\)", one)) <= ids(one)


def test_texts_and_hovers_are_placed():
    tree = ET.fromstring(panel().svg)
    assert {"one", "two"} <= {element.text for element in tree.iter("text")}
    (group,) = [g for g in tree.iter("g") if g.get("class") == "series"]
    assert group.find("title").text == "a line"
    assert group.find("path") is not None


@pytest.mark.parametrize(
    "name", ["@1@", "<script>x</script>", "$\\frac{1$", "a & b", '" onload="x', "#000000", "<!-- -->"]
)
def test_a_name_is_text_whatever_it_holds(name):
    tree = ET.fromstring(panel(title=name, description=name, texts=(name, "two"), hovers={"last": name}).svg)
    assert tree.find("title").text == name
    assert tree.find("desc").text == name
    assert [element.text for element in tree.iter("text")].count(name) == 1
    assert [g.find("title").text for g in tree.iter("g") if g.get("class") == "series"] == [name]


def test_the_style_of_the_user_does_not_reach_it():
    plain = panel()
    with mpl.rc_context({"text.usetex": True, "axes.grid": False, "lines.linewidth": 7, "font.size": 30}):
        assert panel() == plain
        assert mpl.rcParams["lines.linewidth"] == 7  # and theirs comes back


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("M 0 0 L 5 0 L 10 0", "M0 0H10"),  # one run
        ("M 0 0 L 10 0 L 5 0", "M0 0H10H5"),  # turns back: the far point stays
        ("M 0 0 L 0 5 L 0 9 L 3 9 z", "M0 0V9H3z"),
        ("M 1.04 2.06 L 3.14 4.15", "M1 2.1L3.1 4.2"),
        ("M 0 0 L 0.04 0.01 L 4 4", "M0 0L4 4"),  # less than a tenth of a pixel: the same point
        ("M 0 0 C 1 1 2 2 3 3 L 3 5", "M0 0C1 1 2 2 3 3V5"),  # curves are kept
        ("M 0 0 L 4 0 M 6 0 L 8 0", "M0 0H4M6 0H8"),  # a gap is a gap
    ],
)
def test_paths_are_shortened_and_stay_the_same(path, short):
    assert svg._short_path(path) == short
