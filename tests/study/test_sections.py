"""A wrong key or type of a plan gets one sentence with its path."""

from __future__ import annotations

import pytest

from caveat import InputError
from caveat.study.sections import Section


def test_an_unknown_key_is_named_with_its_path_and_the_nearest():
    with pytest.raises(InputError, match=r"unknown key 'sources\.a\.calibraton'\. Did you mean 'sources\.a\.calib"):
        Section({"calibraton": "x"}, "sources.a").known("calibration", "train")


def test_a_key_like_no_other_gets_the_list_only():
    with pytest.raises(InputError, match=r"^unknown key 'zzz'\. Known: alpha, title\.$"):
        Section({"zzz": 1}).known("title", "alpha")


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [("x", int, "a whole number"), (1.5, int, "a whole number"), (True, int, "a whole number"), (1, str, "text"),
     (True, float, "a number"), ([1], dict, "a table"), (1, bool, "true or false")],
)  # fmt: skip
def test_a_wrong_type_is_named(value, kind, said):
    with pytest.raises(InputError, match=rf"^a\.b must be {said}, got "):
        Section({"b": value}, "a").take("b", kind, None)


def test_a_whole_number_will_do_for_a_number():
    assert Section({"alpha": 1}).take("alpha", float, 0.0) == 1.0


def test_a_missing_key_gives_the_default_or_an_error():
    assert Section({}).take("k", int, 7) == 7
    with pytest.raises(InputError, match=r"^a\.run is missing"):
        Section({}, "a").need("run", str)


def test_lists_are_checked_item_by_item():
    assert Section({"s": "one"}).many("s", str) == ("one",)
    assert Section({}).many("s", str, ("d",)) == ("d",)
    with pytest.raises(InputError, match=r"s\[1\] must be text, got 2"):
        Section({"s": ["a", 2]}).many("s", str)
    with pytest.raises(InputError, match="s must be a list with at least one"):
        Section({"s": []}).many("s", str)


def test_tables_inside_tables():
    plan = Section({"sources": {"a": {"x": 1}}})
    assert [(name, section.path, section.content) for name, section in plan.sections("sources")] == [
        ("a", "sources.a", {"x": 1})
    ]
    with pytest.raises(InputError, match=r"sources\.a must be a table, got 'x'"):
        list(Section({"sources": {"a": "x"}}).sections("sources"))
