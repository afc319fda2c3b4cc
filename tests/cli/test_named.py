from __future__ import annotations

from pathlib import Path

import pytest

from caveat import InputError
from caveat.cli._named import check_folder, named_paths


def test_a_path_is_called_by_its_stem_unless_it_is_given_a_name():
    assert named_paths(["a/near.npz", "far=b/x.npz"], what="outlier") == {
        "near": Path("a/near.npz"),
        "far": Path("b/x.npz"),
    }


def test_a_file_whose_name_holds_an_equals_sign_is_a_file(tmp_path):
    odd = tmp_path / "k=5.npz"
    odd.touch()
    assert named_paths([str(odd)], what="outlier") == {"k=5": odd}


def test_two_equal_names_are_an_error():
    with pytest.raises(InputError, match="two outlier sets are called 'a'"):
        named_paths(["x/a.npz", "y/a.npz"], what="outlier")


def test_a_folder_that_can_be_made_is_not_made_yet(tmp_path):
    check_folder(tmp_path)
    check_folder(tmp_path / "a" / "b")
    check_folder(Path("results"))
    assert not any(tmp_path.iterdir())


def test_a_folder_without_the_right_to_write_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(InputError, match="cannot be written. Choose another folder"):
        check_folder(tmp_path / "a")
