"""The committed tables keep what the study set out to show, and a small run of the study still makes such tables."""

import csv
import sys

import numpy as np
import pytest

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def certified(study):
    from pathlib import Path

    folder = Path(__file__).resolve().parents[2] / "studies" / "certified"
    sys.path.insert(0, str(folder))
    try:
        yield study("certified")
    finally:
        sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def rows(certified):
    with (certified.HERE / "results.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def value(rows, method, outlier, metric, epsilon="0.3"):
    (row,) = [r for r in rows if (r["method"], r["set"], r["epsilon"]) == (method, outlier, epsilon)]
    return float(row[metric])


def test_every_method_and_set_is_there(certified, rows):
    found = {(r["method"], r["set"], float(r["epsilon"])) for r in rows}
    assert found == {(m, s, e) for m in certified.networks.METHODS for s, e in certified.CELLS}


def test_the_sandwich_holds_everywhere(rows):
    for row in rows:
        assert float(row["gauc"]) <= float(row["aauc"]) + 1e-5, row
        assert float(row["aauc"]) <= float(row["auc"]) + 1e-5, row
        assert float(row["gauc_with_95_percent"]) <= float(row["gauc"]) + 1e-5, row


def test_what_was_to_be_reached(rows):
    assert value(rows, "GOOD_100", "Fashion-MNIST", "accuracy") >= 0.95
    assert value(rows, "GOOD_100", "Fashion-MNIST", "gauc") >= 0.60
    for noise in ("Uniform noise", "Smooth noise"):
        assert round(100 * value(rows, "GOOD_100", noise, "gauc"), 1) == 100.0
    assert value(rows, "joint", "Fashion-MNIST", "accuracy") >= 0.985
    assert value(rows, "joint", "Uniform noise", "gauc") >= 0.995
    assert value(rows, "joint", "Fashion-MNIST", "gauc") >= 0.90
    assert value(rows, "CCU", "Uniform noise", "gauc") >= 0.99


def test_methods_without_certificates_have_none(rows):
    for method in ("Plain", "OE", "CEDA", "ACET", "GOOD_0"):
        assert value(rows, method, "Fashion-MNIST", "gauc") < 0.01


def test_tables_and_figures_from_a_few_cells(certified, tmp_path):
    rng = np.random.default_rng(0)
    found = {}
    for method in ("Plain", "joint"):
        for epsilon in (certified.EPSILON, certified.WIDER):
            for outlier, eps in certified.CELLS:
                if eps != epsilon:
                    continue
                path = certified.cell_path(tmp_path, method, outlier, epsilon)
                path.parent.mkdir(parents=True, exist_ok=True)
                clean = np.log(rng.uniform(0.1, 0.3, 52))
                np.savez(
                    path, inlier=np.log(rng.uniform(0.5, 1, 40)), accuracy=0.9, clean=clean, attacked=clean + 0.1,
                    upper=clean + 0.2, zero_gradients=0.5, labels=np.arange(52) % 26, seconds=1.0,
                )  # fmt: skip
            found[method, epsilon], seconds = certified.collect(method, tmp_path, epsilon)
            assert seconds == (7 if epsilon == certified.EPSILON else 4)
    certified.layout.write(found, tmp_path / "out")
    text = (tmp_path / "out" / "tables.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Table 1: radius 0.3",
        "## Table 8: further sets, radius 0.3",
        "## Table 4: mean confidence, and mean upper bound at radius 0.3",
        "## Table 9: radius 0.4",
    ]
    assert text.count("| joint |") == 4
    for name in ("histograms.svg", "letters.svg", "results.csv"):
        assert (tmp_path / "out" / name).stat().st_size > 500


@pytest.mark.slow
def test_images_of_other_things_have_the_size_of_digits(certified, data):
    for name, make in certified.strangers.SETS.items():
        images = make()
        assert images.inputs().shape[1:] == (1, 28, 28), name
        assert images.inputs().min() >= 0
        assert images.inputs().max() <= 1
