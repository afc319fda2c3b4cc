"""The study of many classes: its own RC3P, what its committed table claims, and a small run on made-up outputs."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import Outputs
from caveat.metrics import covgap


@pytest.fixture(scope="module")
def many(study):
    return study("many_classes", "many_classes")


@pytest.fixture(scope="module")
def outputs():
    rng = np.random.default_rng(0)
    labels = rng.integers(12, size=2400)
    logits = rng.normal(size=(2400, 12))
    logits[np.arange(2400), labels] += np.where(labels % 2 == 0, 5.0, 2.0) + rng.normal(size=2400)
    return Outputs(logits=logits, labels=labels)


def test_rc3p_is_the_published_algorithm(many, outputs):
    calibration, test = outputs[:600], outputs[600:]
    member = many.rc3p("lac", calibration, test, seed=0).member
    ranks = 1 + (calibration.probs > calibration.probs[np.arange(600), calibration.labels][:, None]).sum(axis=1)
    scores = 1 - calibration.probs[np.arange(600), calibration.labels]
    test_ranks = 1 + (test.probs[:, None, :] > test.probs[:, :, None]).sum(axis=2)
    for label in range(12):
        own, own_ranks = np.sort(scores[calibration.labels == label]), ranks[calibration.labels == label]
        k = next(k for k in range(1, 13) if np.mean(own_ranks > k) < many.ALPHA)
        place = int(np.ceil((own.size + 1) * (1 - many.ALPHA + np.mean(own_ranks > k)) - 1e-9))
        most = own[place - 1] if place <= own.size else np.inf
        np.testing.assert_array_equal(
            member[:, label], (1 - test.probs[:, label] <= most) & (test_ranks[:, label] <= k)
        )


def test_a_row_says_what_one_split_gives(many, outputs):
    row = many.one(outputs, "made up", "lac", 50, "class", 2)
    gaps, sizes = [], []
    for seed, (calibration, test) in enumerate(many.splits(outputs, 50, 2)):
        sets = many.sets_of("lac", "label", calibration, test, seed)
        gaps.append(covgap(covered=sets.covers(test.labels), labels=test.labels, alpha=0.1))
        sizes.append(sets.sizes.mean())
        assert calibration.n == 600
    assert row.covgap == pytest.approx(np.mean(gaps))
    assert row.size == pytest.approx(np.mean(sizes))


def test_the_committed_table_is_made_of_the_committed_rows(many, studies):
    rows = many.read(studies / "many_classes" / "results.csv")
    assert len(rows) == len(many.NETWORKS) * len(many.SCORES) * len(many.PER_CLASS) * len(many.SCHEMES)
    assert (studies / "many_classes" / "tables.md").read_text(encoding="utf-8") == many.tables(rows)
    assert 1000 < (studies / "many_classes" / "coverage.svg").stat().st_size < 200_000


def test_the_committed_rows_keep_the_promises(many, studies):
    rows = many.read(studies / "many_classes" / "results.csv")
    for row in rows:
        if row.method != "RC3P":  # over all classes, every method covers; splits share rows, so a margin of .01
            assert row.coverage > 0.89, row
        if row.method in ("class", "class, ranks"):
            assert row.below_on_average <= 0.01, row  # of 100 classes, four standard errors
    named = {(r.network, r.score, r.per_class, r.method): r for r in rows}
    for network in many.NETWORKS:
        for per_class in many.PER_CLASS:
            cell = {method: named[network, "lac", per_class, method] for method in many.SCHEMES}
            assert cell["cluster"].size < cell["class"].size
            assert cell["one threshold"].below_on_average > cell["class"].below_on_average


@pytest.mark.slow
def test_one_network_again(many, studies, data):
    network, rows = "resnet20", many.read(studies / "many_classes" / "results.csv")
    with np.load(data / "cifar100_test_logits.npz") as arrays:
        outputs = Outputs(logits=arrays[f"logits_{network}"], labels=arrays["y"].astype(int))
    committed = next(r for r in rows if (r.network, r.score, r.per_class, r.method) == (network, "lac", 20, "class"))
    found = many.one(outputs, network, "lac", 20, "class", committed.splits)
    assert vars(found) == pytest.approx(vars(committed), abs=1e-4)
