"""The paradigms study: its images, one tiny cell, and its tables from rows that are made."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest

from caveat import Head, Outputs
from caveat_lab.experiments.functions import find_function
from caveat_lab.papers.agreement import Agreement

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def paradigms(study):
    return study("paradigms")


def test_colours_become_brightness_and_the_middle_is_kept(paradigms):
    pixels = np.zeros((1, 32, 32, 3), dtype=np.uint8)
    pixels[0, 2, 2] = (255, 0, 0)  # the corner of the middle: 0.299 of 255 is 76
    found = paradigms.grey(pixels)
    assert found.shape == (1, 28, 28)
    assert found[0, 0, 0] == 76
    assert found.sum() == 76
    assert paradigms.as_bytes(np.array([[[0.5, 2.0]]])).tolist() == [[[128, 255]]]


def outputs(rng, n, shift, head, *, labels):
    y = rng.integers(3, size=n)
    features = np.abs(rng.normal(size=(n, 5)) + 2 * np.eye(3, 5)[y] + shift)
    return Outputs(features=features, logits=head.logits(features), head=head, labels=y if labels else None)


def test_every_score_on_every_set(paradigms):
    rng = np.random.default_rng(0)
    head = Head(np.eye(3, 5), np.zeros(3))
    train, validation, inlier = (outputs(rng, n, 0.0, head, labels=True) for n in (200, 80, 90))
    outliers = {"far": outputs(rng, 40, 3.0, head, labels=False)}
    rows = paradigms.measure("rest", train, validation, inlier, outliers)
    names = {row["score"] for row in rows}
    assert {"msp", "energy", "mahalanobis", "knn"} <= names
    assert len(rows) == 4 * len(names)
    # An outlier set that lies apart is found by distance: its AUGRC is that of a perfect ranking, (1 - a)^2 / 2.
    share = 40 / (40 + inlier.correct.sum())
    (found,) = (r["value"] for r in rows if (r["score"], r["set"], r["metric"]) == ("mahalanobis", "far", "augrc"))
    assert found == pytest.approx(1000 * share**2 / 2, rel=0.1)


def test_tables_and_findings_from_rows(paradigms, tmp_path):
    rng = np.random.default_rng(0)
    rows = []

    def add(paradigm, seed, inference, score, case, metric, value):
        rows.append(paradigms.row(inference, score, case, metric, value) | {"paradigm": paradigm, "seed": seed})

    cases = ("test", *paradigms.SETS)
    for paradigm in ("confidnet", "devries", "deep_gamblers"):
        for seed in range(2):
            for inference in ("rest", "passes"):
                add(paradigm, seed, inference, "", "test", "accuracy", 0.9)
                for number, score in enumerate(("msp", "gen", "knn", "confidence", "mc_msp", "energy")):
                    if score == "mc_msp" and inference == "rest":
                        continue
                    worse = 5 * (inference == "passes") + (0 if paradigm == "deep_gamblers" else 2)
                    for case in cases:
                        add(paradigm, seed, inference, score, case, "augrc", 50 + number + worse + rng.normal() / 10)
            for far, case in enumerate(paradigms.SETS):
                for metric in ("frechet", "mmd", "centroid"):
                    add(paradigm, seed, "geometry", "", case, metric, far + rng.random() / 10)
            for metric in (*paradigms.COLLAPSE, "cpu_seconds"):
                add(paradigm, seed, "geometry", "", "", metric, 60.0)
    folder = paradigms.__file__.replace("run.py", "summary.py")
    found = find_function("summary.py:summary", folder)(rows, tmp_path)
    lines = (tmp_path / "tables.md").read_text(encoding="utf-8").splitlines()
    (test,) = (line for line in lines if line.startswith("| test | test |") and "deep_gamblers (msp)" in line)
    rest, passes = (float(cell) for cell in test.split("|")[3:5])
    assert rest == pytest.approx(50, abs=0.3)
    assert passes == pytest.approx(55, abs=0.3)
    assert "6 networks, 6 minutes of one core in all." in lines
    said = {check.what.split(" ")[0]: check for check in found.parts[0].checks}
    assert said["ten"].ours == "12 of 12 rows"
    assert said["ten"].agrees
    assert not said["with"].agrees  # here Deep Gamblers win with passes too
    assert said["without"].agrees
    assert {path.name for path in tmp_path.iterdir()} >= {"results.csv", "tables.md", "cd_paradigms.svg"}


def test_the_published_table_has_nine_rows_for_each_source(studies):
    """The names of the sources have slipped in print; the values show where a source starts."""
    with (studies / "paradigms" / "published.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    blocks = [rows[start : start + 9] for start in range(0, 36, 9)]
    assert [{row["source"] for row in block} for block in blocks] == [
        {"CIFAR-10"}, {"SuperCIFAR-100"}, {"CIFAR-100"}, {"Tiny-ImageNet"},
    ]  # fmt: skip
    for block in blocks:  # own errors first, the largest outlier set (SVHN) last
        values = [float(row["without_passes"]) for row in block]
        assert (min(values), max(values)) == (values[0], values[-1])
    lower = [sum(float(row["without_passes"]) < float(row["with_passes"]) for row in block) for block in blocks]
    assert lower == [8, 4, 4, 0]
    gamblers = sum(row["best_without"] == "deep_gamblers" for row in blocks[0])
    confidnet = sum(row["best_with"] == "confidnet" for row in blocks[0])
    committed = Agreement.read(studies / "paradigms" / "comparison.json").parts[0].checks
    counts = [re.search(r"paper: (\d) of 9", check.what) for check in committed[:3]]
    assert [int(count[1]) for count in counts] == [lower[0], confidnet, gamblers]
