from __future__ import annotations

import numpy as np
import pytest

from caveat_lab.data import KNOWN, finding


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVEAT_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(finding, "_DEBIAN", tmp_path / "debian")
    return tmp_path


def line_of(out, name):
    return next(line for line in out.splitlines() if line.split()[:1] == [name])


def test_every_set_is_listed_with_what_is_here_and_where_the_rest_is(run, folder):
    np.savez(folder / "usps.npz", x_train=np.zeros((1, 16, 16), np.uint16), y_train=[0])
    np.savez(folder / "emnist_letters_test.npz", x=np.zeros((1, 28, 28), np.uint8), y=[1])
    code, out, _ = run("data", "list")
    assert code == 0
    for known in KNOWN.values():
        assert line_of(out, known.name)
    assert "yes" in line_of(out, "digits")
    assert "yes" in line_of(out, "wine")
    assert "usps.npz" in line_of(out, "usps")
    assert "emnist_letters_test.npz (rows grouped by class); from https://www.nist.gov" in line_of(
        out, "emnist_letters"
    )
    assert " no " in line_of(out, "cifar100")
    assert "https://www.cs.toronto.edu/~kriz/cifar.html" in line_of(out, "cifar100")
    assert "Debian package dataset-fashion-mnist" in line_of(out, "fashion_mnist")
    assert str(folder) in out
    assert "CAVEAT_DATA" in out


@pytest.mark.parametrize("columns", ["80", "120", "200"])
def test_no_address_is_cut(columns, run, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    out = run("data", "list")[1]
    words = {word.rstrip(",;") for word in out.split()}
    for known in KNOWN.values():
        for word in known.home.split():
            assert word.rstrip(",;") in words
    assert str(folder) in out


def test_images_are_drawn(run):
    code, out, _ = run("data", "show", "digits", "--count", "2")
    assert code == 0
    assert "digits: (1797, 8, 8) float64, 10 classes" in out
    assert "class 0" in out
    assert "class 1" in out
    assert "class 2" not in out
    assert "@@" in out


def test_what_is_not_here_is_said(run, folder):
    code, _, err = run("data", "show", "mnist", "--split", "test")
    assert code != 0
    assert "mnist (test) is not here" in err
    assert "yann.lecun.com" in err
