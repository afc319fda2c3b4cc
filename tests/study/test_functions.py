"""Functions of files in the plan's folder, and of modules."""

from __future__ import annotations

import math
import sys

import pytest

from caveat import InputError
from caveat_lab.experiments.functions import find_function, function_file


@pytest.fixture(autouse=True)
def _same_path_afterwards():
    before = list(sys.path)
    yield
    sys.path[:] = before


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code)
    return folder


def test_a_file_and_a_module(tmp_path):
    folder = write(tmp_path / "a", run="def one(x): return x + 1")
    path = function_file("run.py:one", folder)
    assert path == folder / "run.py"
    assert find_function("run.py:one", str(path))(1) == 2
    assert function_file("json:dumps", folder).name == "__init__.py"
    assert find_function("math:sqrt", "") is math.sqrt


def test_the_neighbors_of_a_file_can_be_imported_and_two_plans_do_not_mix(tmp_path):
    # Both have a neighbor of the same name; each must see its own, whichever was loaded first.
    for name, value in (("a", 1), ("b", 2)):
        task = "from neighbor_of_task import VALUE\ndef one(): return VALUE"
        write(tmp_path / name, neighbor_of_task=f"VALUE = {value}", run=task)
    found = [find_function("run.py:one", str(tmp_path / name / "run.py"))() for name in ("a", "b", "a")]
    assert found == [1, 2, 1]
    assert sys.path.count(str(tmp_path / "a")) + sys.path.count(str(tmp_path / "b")) == 1


def test_an_import_inside_the_function_finds_the_neighbor_too(tmp_path):
    for name, value in (("a", 1), ("b", 2)):
        task = "def one():\n import late_neighbor\n return late_neighbor.VALUE"
        write(tmp_path / name, late_neighbor=f"VALUE = {value}", run=task)
    assert [find_function("run.py:one", str(tmp_path / name / "run.py"))() for name in ("a", "b", "a")] == [1, 2, 1]


def test_an_edited_file_is_loaded_again(tmp_path):
    folder = write(tmp_path / "a", run="def one(): return 1")
    assert find_function("run.py:one", str(folder / "run.py"))() == 1
    write(folder, run="def one(): return 22")
    assert find_function("run.py:one", str(folder / "run.py"))() == 22


def test_what_is_not_there_is_named(tmp_path):
    folder = write(tmp_path / "a", run="one = 3")
    with pytest.raises(InputError, match=r"gone\.py does not exist"):
        function_file("gone.py:one", folder)
    with pytest.raises(InputError, match="there is no module 'no_such_module'"):
        function_file("no_such_module:one", folder)
    with pytest.raises(InputError, match="has no function 'one'"):
        find_function("run.py:one", str(folder / "run.py"))


def test_a_file_that_does_not_run_is_tried_again(tmp_path):
    folder = write(tmp_path / "a", run="raise RuntimeError('no')")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no"):
            find_function("run.py:one", str(folder / "run.py"))
