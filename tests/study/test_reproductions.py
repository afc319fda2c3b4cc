from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from caveat import InputError
from caveat_lab.experiments import Plan
from caveat_lab.papers.agreement import Agreement
from caveat_lab.papers.reproductions import (
    DataFile,
    find_reproduction,
    reproduction_page,
    reproductions,
    studies_folder,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAMES = ("openood-corrections", "adbench", "usps", "nonconformity-scores", "adaptivity", "regression", "cnn-scores",
         "fpr-fluctuation")  # fmt: skip
FACTS = """
name = "tiny"
title = "A tiny study"
paper = "Nobody, \\"Nothing\\""
reproduces = "Table 0"
time = "1 s"
data = ["a.npz", "b.npz"]
"""


@pytest.fixture
def tiny(tmp_path):
    """A folder of studies with one reproduction that needs two files."""
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "reproduction.toml").write_text(FACTS)
    (tmp_path / "data.toml").write_text(
        '["a.npz"]\nwhat = "Set A."\norigin = "From somewhere."\n["b.npz"]\nwhat = "Set B."\norigin = "Elsewhere."\n'
    )
    return tmp_path


def test_every_reproduction_of_the_project_is_listed():
    found = reproductions()
    assert set(NAMES) <= {one.name for one in found}
    assert len({one.name for one in found}) == len(found)
    for one in found:
        assert one.paper
        assert one.reproduces
        assert one.time
        Plan.read(one.plan)
        Plan.read(one.fresh_plan)
        assert (one.folder / "summary.py").is_file()
        assert (one.folder / "README.md").is_file()


@pytest.mark.parametrize("one", reproductions(), ids=lambda one: one.name)
def test_a_committed_comparison_explains_every_difference(one):
    assert one.committed is not None
    assert one.committed.compared > 0
    assert one.committed.unexplained == ()


def test_a_plan_names_the_data_that_the_reproduction_names():
    for one in reproductions():
        content = tomllib.loads(one.plan.read_text(encoding="utf-8"))
        named = {path.removeprefix("${CAVEAT_DATA}/") for path in content.get("task", {}).get("data", [])
                 if path.startswith("${CAVEAT_DATA}/")}  # fmt: skip
        if "task" in content:
            assert named == {file.name for file in one.data}, one.name


def test_an_unknown_name_suggests_the_right_one():
    with pytest.raises(InputError, match="Did you mean 'adbench'"):
        find_reproduction("adbnch")


def test_missing_data_name_the_file_and_where_to_get_it(tiny, monkeypatch, tmp_path):
    (one,) = reproductions(tiny)
    assert [file.name for file in one.data] == ["a.npz", "b.npz"]
    assert one.cite == "Nobody"
    monkeypatch.delenv("CAVEAT_DATA", raising=False)
    with pytest.raises(InputError, match=r"tiny needs a.npz, b.npz, and CAVEAT_DATA names no folder"):
        one.check_data()
    monkeypatch.setenv("CAVEAT_DATA", str(tmp_path))
    (tmp_path / "a.npz").touch()
    with pytest.raises(InputError, match=r"(?s)tiny needs b.npz, which .* does not hold.*b.npz: Set B. Elsewhere"):
        one.check_data()
    (tmp_path / "b.npz").touch()
    one.check_data()


def test_facts_with_an_unknown_key_or_file_are_refused(tiny):
    path = tiny / "tiny" / "reproduction.toml"
    path.write_text(FACTS + 'tme = "2 s"\n')
    with pytest.raises(InputError, match=r"reproduction.toml: unknown key 'tme'. Did you mean 'time'"):
        reproductions(tiny)
    path.write_text(FACTS.replace("b.npz", "c.npz"))
    with pytest.raises(InputError, match=r"unknown file of studies/data.toml 'c.npz'"):
        reproductions(tiny)


def test_the_summary_writes_the_comparison_and_must_return_one(tiny, tmp_path):
    (one,) = reproductions(tiny)
    (one.folder / "summary.py").write_text(
        "from caveat_lab.papers.agreement import Agreement, compare_numbers\n"
        "def summary(rows, out):\n"
        "    pairs = [('x', 1.0, row['x'], 'it moved') for row in rows]\n"
        "    return Agreement((compare_numbers('Table 0', pairs, tolerance=0.1),))\n"
    )
    found = one.summarize([{"x": 1.05}, {"x": 3.0}], tmp_path / "out")
    assert found.sentence == "1 of 2 agree; largest difference 2"
    assert Agreement.read(tmp_path / "out" / "comparison.json") == found
    (one.folder / "summary.py").write_text("def summary(rows, out):\n    return rows\n")
    with pytest.raises(InputError, match="returns must be of type Agreement"):
        one.summarize([], tmp_path / "out")


def test_the_data_that_studies_name_have_an_origin():
    for one in reproductions():
        for file in one.data:
            assert isinstance(file, DataFile)
            assert len(file.what) > 10
            assert len(file.origin) > 10
    assert (studies_folder() / "data.toml").is_file()


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
