"""The committed tables have the findings of the study, and cells give such tables."""

import csv

import numpy as np
import pytest

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def run(study):
    return study("certified")


@pytest.fixture(scope="module")
def rows(run):
    return list(run.kept_rows().values())


def value(run, method, outlier, metric, epsilon=0.3):
    return run.kept_rows()[method, outlier, epsilon][metric]


def test_every_method_and_set_is_there(run):
    assert set(run.kept_rows()) == {(m, s, e) for m in run.networks.METHODS for s, e in run.CELLS}


def test_the_sandwich_holds_everywhere(rows):
    for row in rows:
        assert row["gauc"] <= row["aauc"] + 1e-5, row
        assert row["aauc"] <= row["auc"] + 1e-5, row
        assert row["gauc_with_95_percent"] <= row["gauc"] + 1e-5, row


def test_what_was_to_be_reached(run):
    assert value(run, "GOOD_100", "Fashion-MNIST", "accuracy") >= 0.95
    assert value(run, "GOOD_100", "Fashion-MNIST", "gauc") >= 0.60
    for noise in ("Uniform noise", "Smooth noise"):
        assert round(100 * value(run, "GOOD_100", noise, "gauc"), 1) == 100.0
    assert value(run, "joint", "Fashion-MNIST", "accuracy") >= 0.985
    assert value(run, "joint", "Uniform noise", "gauc") >= 0.995
    assert value(run, "joint", "Fashion-MNIST", "gauc") >= 0.90
    assert value(run, "CCU", "Uniform noise", "gauc") >= 0.99


def test_the_density_ratio_certifies_fresh_noise_the_confidence_less_and_a_rounded_one_least(run):
    with (run.HERE / "ratio.csv").open(encoding="utf-8") as stream:
        found = {(row["epsilon"], row["noise"], row["score"]): float(row["gauc"]) for row in csv.DictReader(stream)}
    assert found["0.3", "fresh", "log b"] > found["0.3", "fresh", "confidence"] >= 0.99
    assert found["0.3", "fresh", "confidence"] > found["0.3", "fresh", "rounded confidence"] > 0.98
    assert found["0.3", "of the table", "confidence"] == round(value(run, "CCU", "Uniform noise", "gauc"), 5)


def test_the_whole_table_takes_less_than_an_hour_on_two_cores(rows):
    training = {row["method"]: row["training_seconds"] for row in rows}
    assert sum(training.values()) + sum(row["seconds"] for row in rows) < 2 * 3600


def test_kept_cells_are_taken_and_others_computed(run, monkeypatch):
    (params, *_) = run.grid()
    assert run.one(**params)["gauc"] == run.kept_rows()[params["method"], params["set"], params["epsilon"]]["gauc"]
    monkeypatch.setattr(run, "compute", lambda *cell: cell)
    (params, *_) = run.fresh_grid()
    assert run.one(**params) == ("joint", "Fashion-MNIST", 0.3)


@pytest.fixture
def cells(run, tmp_path, monkeypatch):
    """A store of invented confidences; nothing is trained."""
    monkeypatch.setenv("CAVEAT_CACHE", str(tmp_path))
    rng = np.random.default_rng(0)
    for method in run.networks.METHODS:
        for outlier, epsilon in run.CELLS:
            path = run.cell_path(method, outlier, epsilon)
            path.parent.mkdir(parents=True, exist_ok=True)
            clean = np.log(rng.uniform(0.1, 0.3, 52))
            np.savez(
                path, inlier=np.log(rng.uniform(0.5, 1, 40)), accuracy=0.9, clean=clean, attacked=clean + 0.1,
                upper=clean + 0.2, zero_gradients=0.5, labels=np.arange(52) % 26, seconds=1.0,
            )  # fmt: skip
    return tmp_path


def test_tables_and_figures_from_cells(run, study, cells, tmp_path):
    rows = [run.one(**params) for params in run.fresh_grid()]
    out = tmp_path / "out"
    out.mkdir()
    study("certified", "summary").summary(rows, out)
    text = (out / "tables.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Table 1: radius 0.3",
        "## Table 8: further sets, radius 0.3",
        "## Table 9: radius 0.4",
        "## Table 4: mean confidence, and mean upper bound at radius 0.3",
    ]
    assert text.count("| joint |") == 4
    for name in ("histograms.svg", "letters.svg", "results.csv"):
        assert (out / name).stat().st_size > 500


@pytest.mark.slow
def test_images_of_other_things_have_the_size_of_digits(run, data):
    for name, make in run.strangers.SETS.items():
        images = make()
        assert images.inputs().shape[1:] == (1, 28, 28), name
        assert images.inputs().min() >= 0
        assert images.inputs().max() <= 1
