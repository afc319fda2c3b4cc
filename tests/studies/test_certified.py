"""The committed tables have the findings of the study, and cells give such tables."""

import csv
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

QUANTILES = (0, 20, 40, 60, 80, 90, 95, 100)


@pytest.fixture(scope="module")
def run(study):
    return study("certified")


@pytest.fixture(scope="module")
def rows(run):
    return list(run.kept_rows().values())


def value(run, method, outlier, metric, epsilon=0.3, task="MNIST"):
    return run.kept_rows()[task, method, outlier, epsilon][metric]


def table(run, name):
    with (run.HERE / name).open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_every_method_and_set_is_there(run):
    assert set(run.kept_rows()) == {
        (name, method, *cell)
        for name, task in run.networks.TASKS.items()
        for method in task.methods
        for cell in task.cells
    }


def test_every_quantile_of_the_paper_is_there(run):
    for task in (run.networks.TASKS[name] for name in ("MNIST", "CIFAR-10")):
        assert [m for m in task.methods if m.startswith("GOOD")] == [f"GOOD_{q}" for q in QUANTILES]
        for q in QUANTILES:
            assert task.methods[f"GOOD_{q}"].paradigm.quantile == q / 100


def test_ccu_is_measured_with_fixed_and_with_trained_mixtures(run):
    fixed, trained = (run.networks.METHODS[name].paradigm for name in ("CCU", "CCU, trained"))
    assert (fixed.trained, trained.trained) == (False, True)
    assert replace(trained, trained=False, mixture_rate=fixed.mixture_rate) == fixed
    assert {"CCU", "CCU, trained"} <= {method for task, method, *_ in run.kept_rows() if task == "MNIST"}


def test_the_sandwich_holds_everywhere(rows):
    for row in rows:
        assert row["gauc"] <= row["aauc"] + 1e-5, row
        assert row["aauc"] <= row["auc"] + 1e-5, row
        assert row["gauc_with_95_percent"] <= row["gauc"] + 1e-5, row


def test_the_interval_of_an_attacked_area_holds_it(rows):
    for row in rows:
        assert row["aauc_lower"] - 1e-5 <= row["aauc"] <= row["aauc_upper"] + 1e-5, row


def test_all_rows_of_a_method_are_of_one_training_and_as_many_points_as_the_set_has(run, rows):
    by_method = {}
    for row in rows:
        by_method.setdefault((row["task"], row["method"]), []).append(row)
        held = 800 if row["set"] == "Omniglot" else run.networks.TASKS[row["task"]].points
        assert row["n"] == held, row
    for name, mine in by_method.items():
        assert len({(row["accuracy"], row["training_seconds"], row["mean_inlier_confidence"]) for row in mine}) == 1, (
            name
        )


def test_what_was_to_be_reached(run):
    assert value(run, "GOOD_100", "Fashion-MNIST", "accuracy") >= 0.95
    assert value(run, "GOOD_100", "Fashion-MNIST", "gauc") >= 0.60
    for noise in ("Uniform noise", "Smooth noise"):
        assert round(100 * value(run, "GOOD_100", noise, "gauc"), 1) == 100.0
    assert value(run, "joint", "Uniform noise", "gauc") >= 0.995
    assert value(run, "CCU", "Uniform noise", "gauc") >= 0.99


def test_training_the_mixtures_raises_their_likelihood_and_lowers_what_they_certify(run):
    by_rate = table(run, "mixtures.csv")
    for name in ("log density of digits", "log density of outliers", "largest move"):
        values = [float(row[name]) for row in by_rate]
        assert values == sorted(values)
        assert values[-1] > values[0]
    gaps = [float(row["gap"]) for row in by_rate]
    assert gaps == sorted(gaps, reverse=True)
    # The rate of the tables is the largest that keeps the gap of fixed mixtures within 0.01.
    close = [float(row["share"]) for row in by_rate if gaps[0] - float(row["gap"]) <= 0.01]
    assert max(close) == run.networks.MIXTURE_RATE
    assert value(run, "CCU, trained", "Uniform noise", "gauc") < value(run, "CCU", "Uniform noise", "gauc")


def test_longer_training_on_cifar_brings_the_guarantee_near_the_attacked_area(run):
    # Of GOOD_80 and OE, on unseen photographs of the kind trained on: far below, then inside the interval.
    for task, inside in (("CIFAR-10", False), ("CIFAR-10 longer", True)):
        gauc = value(run, "GOOD_80", "TinyImageNet", "gauc", 0.01, task)
        lower, upper = (value(run, "OE", "TinyImageNet", f"aauc_{end}", 0.01, task) for end in ("lower", "upper"))
        assert (lower <= gauc <= upper) is inside, task
    pilot = {row["recipe"]: row for row in table(run, "pilot.csv")}
    good = {name: float(row["gauc"]) for name, row in pilot.items() if name.startswith("GOOD")}
    assert max(good, key=good.get) == "GOOD_80 anew, 20,000 x 8"
    recipe = run.networks.LONGER_METHODS["GOOD_80"]
    assert (recipe.rows, recipe.epochs, recipe.paradigm.interval_init) == (20_000, 8, True)


def test_the_joint_model_stays_ahead_with_every_seed_that_was_trained(run):
    seeds = table(run, "seeds.csv")
    assert len(seeds) == 3
    for row in seeds:
        assert float(row["accuracy"]) >= 0.989, row
        assert float(row["Fashion-MNIST gauc"]) >= 0.94, row  # the best published one is 0.780


def test_rounding_costs_little_of_the_certificates_of_networks_trained_for_them(run, study):
    lines = table(run, "rounding.csv")
    assert {line["network"] for line in lines} == set(study("certified", "rounding").NAMES)
    for line in lines:
        if line["network"] == "Plain" and line["radius"] != "0.001":
            continue  # there a bound says nothing to begin with
        assert float(line["float64_largest"]) < 1e-9, line
        assert float(line["float32_mean"]) < 0.01, line
        assert float(line["moved"]) < float(line["float32_largest"]), line


def test_the_page_has_the_table_of_rounding(run, study):
    page = (run.HERE.parents[1] / "docs" / "certificates.md").read_text(encoding="utf-8")
    for line in study("certified", "rounding").markdown(table(run, "rounding.csv")):
        assert line in page


def test_the_bound_is_why_ccu_certifies_noise_here_and_not_in_the_paper(run):
    # The same densities and the same noise: the published ball certifies nothing at radius 0.3.
    at = {row["epsilon"]: row for row in table(run, "bounds.csv")}
    assert float(at["0.3"]["ball"]) == 0
    assert float(at["0.3"]["pairs"]) > 99
    assert at["0.0"]["ball"] == at["0.0"]["box"] == at["0.0"]["pairs"]
    # On CIFAR-10 it is a part of the cause: the ball certifies something, pairs much more.
    (at,) = (row for row in table(run, "bounds_cifar10.csv") if row["epsilon"] == "0.01")
    assert 0 < float(at["ball"]) < float(at["box"]) < float(at["pairs"])
    # In the published metric the ball certifies all or nothing, by the least eigenvalue: the metric alone is no cause.
    assert (float(at["mahalanobis 0.0001"]), float(at["mahalanobis 0.01"])) == (100, 0)
    assert abs(float(at["pairs"]) / 100 - value(run, "CCU", "Uniform noise", "gauc", 0.01, "CIFAR-10")) < 0.02


def test_the_density_ratio_certifies_fresh_noise_the_confidence_less_and_a_rounded_one_least(run):
    found = {(row["epsilon"], row["noise"], row["score"]): float(row["gauc"]) for row in table(run, "ratio.csv")}
    assert found["0.3", "fresh", "log b"] > found["0.3", "fresh", "confidence"] >= 0.99
    assert found["0.3", "fresh", "confidence"] > found["0.3", "fresh", "rounded confidence"] > 0.98
    assert found["0.3", "of the table", "confidence"] == round(value(run, "CCU", "Uniform noise", "gauc"), 5)


def test_the_interval_of_the_attacked_area_covers_nearly_as_often_as_it_says(run, study):
    found = {(row["kind"], row["area"], row["outliers"]): float(row["coverage"]) for row in table(run, "coverage.csv")}
    assert min(share for (_, _, m), share in found.items() if m == "200") >= 0.9
    # Once more with fewer trials: four standard deviations of a share in 300.
    again = study("certified", "coverage").one("spread", 0.8, 200, inliers=500, trials=300)
    assert abs(float(again["coverage"]) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 300)


def test_half_of_the_simulated_outliers_have_the_area_they_should(study):
    attacked = study("certified", "coverage").attacked
    for kind in ("spread", "all or nothing"):
        values = attacked(kind, 0.8, 200_000, np.random.default_rng(0))
        assert 1 - values.mean() == pytest.approx(0.8, abs=0.005)


def test_two_causes_of_differences_on_mnist(run):
    at = {(row["method"], row["set"]): row for row in table(run, "causes.csv")}

    def number(method, name, what):
        return float(at[method, name][what])

    for method in ("GOOD_100", "OE"):  # the first rows are those of the tables
        for name in run.networks.TASKS["MNIST"].first:
            for what in ("auc", "aauc", "gauc"):
                assert number(method, name, what) == pytest.approx(100 * value(run, method, name, what), abs=0.051)
    # Photographs as training outliers, as in the paper: a cause of the lower GAUC on clothes, not of that on letters.
    clothes = [number(name, "Fashion-MNIST", "gauc") for name in ("GOOD_100", "GOOD_100, photographs")]
    letters = [number(name, "EMNIST letters", "gauc") for name in ("GOOD_100", "GOOD_100, photographs")]
    assert clothes[0] < 78.0 < clothes[1]  # published: 78.0
    assert 3.4 < letters[0] < letters[1]  # published: 3.4
    # Nor of the confidence on the letter o, which the paper's network rejects.
    assert int(at["GOOD_100, photographs", "EMNIST letters"]["o place"]) <= 3
    # Longer training raises what OE keeps under attack: a part of the difference from 76.8.
    assert number("OE", "Fashion-MNIST", "aauc_upper") < number("OE, longer", "Fashion-MNIST", "aauc_lower")
    assert number("OE, longer", "Fashion-MNIST", "aauc_upper") < 76.8


def test_the_budget_of_the_paper_lowers_no_area_below_its_guarantee(run):
    for row in table(run, "attacks.csv"):
        alone = [float(row[name]) for name in ("apgd", "monotone", "transfer")]
        assert float(row["gauc"]) <= float(row["all"]) <= float(row["paper"]) <= min(alone), row
        assert float(row["all"]) <= float(row["table"]), row


def test_a_batch_is_split_as_in_the_paper(run):
    # GOOD_60 and 128 outliers: 76 certified, 52 at the point.
    split = table(run, "batch.csv")
    assert sum(int(row["certified"]) for row in split) == 76
    assert sum(int(row["at the point"]) for row in split) == 52
    assert [(row["part"], row["n"]) for row in table(run, "batch_cifar10.csv")] == [
        ("certified", "76"),
        ("at the point", "52"),
    ]


def test_a_sample_of_every_letter_has_the_answers_of_good_100_and_every_baseline(run, study):
    models = ("Plain", "CEDA", "OE", "ACET", "CCU", "GOOD_100")
    assert models == study("certified", "samples").MODELS
    samples = table(run, "letter_samples.csv")
    assert [row["letter"] for row in samples] == list("abcdefghijklmnopqrstuvwxyz")
    assert set(samples[0]) == {"letter", "row", *(f"{m} {what}" for m in models for what in ("digit", "confidence"))}
    for row in samples:
        assert all(10 <= float(text) <= 100 for name, text in row.items() if name.endswith("confidence"))


def test_the_whole_table_takes_less_than_two_hours_on_two_cores(rows):
    training = {(row["task"], row["method"]): row["training_seconds"] for row in rows}
    assert sum(training.values()) + sum(row["seconds"] for row in rows) < 4 * 3600


def test_kept_cells_are_taken_and_others_computed(run, monkeypatch):
    monkeypatch.setattr(run, "compute", lambda *cell: cell)  # nothing is trained here
    (params, *_) = run.grid()
    key = tuple(params[name] for name in ("task", "method", "set", "epsilon"))
    assert run.one(**params) == run.kept_rows()[key]
    (params, *_) = run.fresh_grid()
    assert run.one(**params) == ("MNIST", "joint", "Fashion-MNIST", 0.3)


@pytest.fixture
def cells(run, tmp_path, monkeypatch):
    """A store of invented confidences; nothing is trained."""
    monkeypatch.setenv("CAVEAT_CACHE", str(tmp_path))
    rng = np.random.default_rng(0)
    for name, task in run.networks.TASKS.items():
        for method in task.methods:
            for outlier, epsilon in task.cells:
                path = run.cell_path(name, method, outlier, epsilon)
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
        title
        for task, radius, wider in (("MNIST", 0.3, 0.4), ("CIFAR-10", 0.01, 0.03), ("CIFAR-10 longer", 0.01, 0.03))
        for title in (
            f"## Table 1, {task}: radius {radius}",
            f"## Table 8, {task}: further sets, radius {radius}",
            f"## Table 9, {task}: radius {wider}",
            f"## Table 4, {task}: mean confidence, and mean upper bound at radius {radius}",
            f"## AAUC with its interval, {task}: radius {radius}",
        )
    ]
    counts = {"joint": 5, "CCU, trained": 5, "CCU": 10, "GOOD_0": 10, "GOOD_80": 15, "GOOD_95": 10}
    assert {name: text.count(f"| {name} |") for name in counts} == counts
    for name in ("histograms_mnist.svg", "histograms_cifar10.svg", "letters.svg", "results.csv"):
        assert (out / name).stat().st_size > 500


def test_the_zoom_of_the_histograms_by_hand(study):
    # Ten times larger up to one fifth, at height 2, then as it is.
    zoomed = study("certified", "layout").zoomed
    np.testing.assert_allclose(zoomed(np.array([0.0, 0.05, 0.2, 0.5, 1.0])), [0, 0.5, 2, 2.3, 2.8])


@pytest.mark.slow
def test_images_of_other_things_have_the_size_of_the_inliers(run, data):
    for task in run.networks.TASKS.values():
        shape = (3, 32, 32) if task.colour else (1, 28, 28)
        for name, make in task.sets.items():
            images = make()
            assert images.inputs().shape[1:] == shape, name
            assert images.inputs().min() >= 0
            assert images.inputs().max() <= 1


@pytest.mark.slow
def test_no_photograph_of_the_test_was_trained_on(run, data):
    seen, unseen = (run.strangers.photographs(trained=trained) for trained in (True, False))
    assert (len(seen), len(unseen)) == (8000, 2000)
    known = {image.tobytes() for image in seen.pixels}
    assert not any(image.tobytes() in known for image in unseen.pixels)
