"""Distances of a study from files of image and text embeddings, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.evaluation.records import Proximity
from caveat_lab.experiments import Plan, run
from caveat_lab.experiments.expansion import expand

pytest.importorskip("pyarrow")
PLAN = """
scores = ["msp"]
metrics = ["auroc"]
[regimes]
by = "proximity"
[sources.net]
train = "train.npz"
calibration = "held.npz"
inlier = "test.npz"
[sources.net.outliers]
a = "a.npz"
b = "b.npz"
c = "c.npz"
"""
FILES = """
[sources.net.embeddings]
train = "clip_train.npy"
a = "clip_a.npy"
b = "clip_b.npy"
c = "clip_c.npy"
"""
TEXT = FILES + 'text = "clip_text.npy"\n'


@pytest.fixture
def folder(tmp_path):
    """Logits alone, so that no distance could come from the outputs; embeddings on the circle in files."""
    rng = np.random.default_rng(0)
    for name, n in {"train": 4, "held": 40, "test": 40, "a": 30, "b": 30, "c": 30}.items():
        labels = None if name in "abc" else np.arange(n) % 2
        Outputs(logits=rng.normal(size=(n, 2)), labels=labels).save(tmp_path / f"{name}.npz")

    def rows(*degrees):
        angle = np.deg2rad(degrees)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    np.save(tmp_path / "clip_train.npy", rows(0, 90, 0, 90))  # class 0 at 0 degrees, class 1 at 90
    np.save(tmp_path / "clip_a.npy", 7 * rows(60, 90))  # rows are scaled to length one first
    np.save(tmp_path / "clip_b.npy", rows(180, 210))
    np.save(tmp_path / "clip_c.npy", rows(250, 225))
    np.save(tmp_path / "clip_text.npy", rows(30, 120))
    return tmp_path


def distances(folder, plan):
    found = run(Plan.parse(plan, folder=folder), store=folder / "runs")
    assert found.failures == ()
    return found, {record.block.outlier: record for record in found.records(Proximity)}


def cos(degrees):
    return np.cos(np.deg2rad(degrees))


def test_class_distances_by_hand(folder):
    _, near = distances(folder, PLAN + TEXT)
    # Nearest of the class means (0 and 90 degrees) and of the text prototypes (30 and 120), angle by angle.
    expected = {"a": ((30, 0), (30, 30)), "b": ((90, 120), (60, 90)), "c": ((110, 135), (130, 105))}
    for name, (centroid, text) in expected.items():
        assert near[name].centroid == pytest.approx(np.mean([1 - cos(x) for x in centroid]))
        assert near[name].text == pytest.approx(np.mean([1 - cos(x) for x in text]))
        assert near[name].space == "embeddings"
        assert near[name].n == 2
    # The mean of the training rows is (1/2, 1/2); that of b is (cos 180 + cos 210, sin 180 + sin 210) / 2.
    means = np.array([0.5, 0.5]) - np.array([-1 + cos(210), -0.5]) / 2
    assert near["b"].frechet > means @ means  # and the covariances differ
    assert near["a"].block.regime == "near"
    assert sorted(record.block.regime for record in near.values()) == ["far", "mid", "near"]


def test_the_regimes_of_the_results_are_those_of_the_files(folder):
    found, near = distances(folder, PLAN + TEXT)
    table = found.table("auroc")
    assert dict(zip(table["outlier"], table["regime"], strict=True)) == {
        name: record.block.regime for name, record in near.items()
    }


def test_without_text_there_are_three_distances(folder):
    _, near = distances(folder, PLAN + FILES)
    assert all(np.isnan(record.text) for record in near.values())
    assert all(np.isfinite(record.centroid) for record in near.values())


def test_prompts_are_averaged_before_they_are_scaled(folder):
    one = np.load(folder / "clip_text.npy")
    prompts = np.stack([one * 3 - [[0.3, 0.1]], one * 3 + [[0.3, 0.1]]], axis=1)  # their mean is 3 times the prototype
    np.save(folder / "clip_prompts.npy", prompts)
    _, plain = distances(folder, PLAN + TEXT)
    _, averaged = distances(folder, PLAN + TEXT.replace("clip_text", "clip_prompts"))
    for name in plain:
        assert averaged[name].text == pytest.approx(plain[name].text)


def test_embeddings_of_the_outputs_meet_text_from_a_file(folder):
    for name in ("train", "a", "b", "c"):
        outputs = Outputs.load(folder / f"{name}.npz")
        n = outputs.n
        angles = np.linspace(0, {"train": 1, "a": 1, "b": 2, "c": 3}[name], n)
        rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        Outputs(logits=outputs.logits, labels=outputs.labels, embeddings=rows).save(folder / f"{name}.npz")
    _, near = distances(folder, PLAN + '[sources.net.embeddings]\ntext = "clip_text.npy"\n')
    assert all(np.isfinite(record.text) for record in near.values())


def test_text_needs_images_of_the_same_encoder(folder):
    text = '[sources.net.embeddings]\ntext = "clip_text.npy"\n'
    plan = Plan.parse(PLAN.replace('[regimes]\nby = "proximity"\n', "") + text, folder=folder)
    assert "proximity" not in {cell.task for cell in expand(plan)[0]}
    with pytest.raises(InputError, match="need features or embeddings"):
        expand(Plan.parse(PLAN + text, folder=folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('c = "clip_c.npy"\n', ""), "or of none; c is missing"),
        (('train = "clip_train.npy"\n', ""), "or of none; train is missing"),
        (('c = "clip_c.npy"', 'cc = "clip_c.npy"'), "unknown set in sources.net.embeddings 'cc'"),
        (('c = "clip_c.npy"', 'c = ["clip_c.npy"]'), "a path or a table with one"),
    ],
)
def test_a_file_too_few_or_too_many_is_named(folder, change, message):
    with pytest.raises(InputError, match=message):
        Plan.parse(PLAN + TEXT.replace(*change), folder=folder)


def test_classes_of_the_training_embeddings_must_be_known(folder):
    np.save(folder / "clip_train.npy", np.eye(2)[[0, 1, 0]])
    found = run(Plan.parse(PLAN + TEXT, folder=folder), store=folder / "runs")
    assert "3 rows and the training outputs 4" in found.failures[0].message
    np.savez(folder / "clip_train.npz", embeddings=np.eye(2)[[0, 1, 0]], labels=[0, 1, 0])
    _, near = distances(folder, PLAN + TEXT.replace("clip_train.npy", "clip_train.npz"))
    assert near["a"].centroid == pytest.approx(np.mean([1 - cos(30), 0]))


def test_a_text_file_with_too_few_classes_is_named(folder):
    np.save(folder / "clip_text.npy", np.eye(2)[:1])
    found = run(Plan.parse(PLAN + TEXT, folder=folder), store=folder / "runs")
    assert "one text embedding per class, got 1 for 2" in found.failures[0].message


def test_a_text_file_with_too_many_classes_is_named(folder):
    np.save(folder / "clip_text.npy", np.eye(3)[:, :2])
    found = run(Plan.parse(PLAN + TEXT, folder=folder), store=folder / "runs")
    assert "one text embedding per class, got 3 for 2" in found.failures[0].message


def test_rows_of_prompts_are_chosen(folder):
    text = np.load(folder / "clip_text.npy")
    np.save(folder / "clip_prompts.npy", np.concatenate([-text, text])[:, None])
    _, plain = distances(folder, PLAN + TEXT)
    _, chosen = distances(folder, PLAN + TEXT.replace('"clip_text.npy"', '{path = "clip_prompts.npy", rows = "2:"}'))
    assert {name: record.text for name, record in chosen.items()} == {name: r.text for name, r in plain.items()}


def test_a_changed_file_computes_the_distances_again_and_nothing_else(folder):
    before, _ = expand(Plan.parse(PLAN + TEXT, folder=folder))
    np.save(folder / "clip_text.npy", np.eye(2))
    after, _ = expand(Plan.parse(PLAN + TEXT, folder=folder))
    assert {cell.task for cell in after} - {c.task for c in after if c.key in {b.key for b in before}} == {"proximity"}


def test_the_report_has_the_distance_from_the_text(folder):
    from caveat.report import write_report

    found, _ = distances(folder, PLAN + TEXT)
    text = write_report(found.findings(), folder / "report").markdown.read_text(encoding="utf-8")
    assert "| Outlier set | Regime | Space | Fréchet | MMD | Centroid | Text |" in text


def test_rows_of_an_array_are_read_and_keys_refused(folder):
    some = TEXT.replace('b = "clip_b.npy"', 'b = {path = "clip_b.npy", rows = "1:"}')
    np.save(folder / "clip_b.npy", np.vstack([np.eye(2)[:1], np.load(folder / "clip_b.npy")]))
    _, near = distances(folder, PLAN + some)
    assert near["b"].centroid == pytest.approx(np.mean([1 - cos(90), 1 - cos(120)]))
    found = run(
        Plan.parse(
            PLAN + TEXT.replace('"clip_c.npy"', '{path = "clip_c.npy", keys = {embeddings = "z"}}'), folder=folder
        ),
        store=folder / "other",
    )
    assert "keys cannot be given" in found.failures[0].message
