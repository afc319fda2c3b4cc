from __future__ import annotations

import csv
from dataclasses import asdict, astuple
from pathlib import Path

import numpy as np
import pytest

from caveat.conformal import boundary

STUDY = Path(__file__).parents[2] / "studies" / "openood_corrections"


@pytest.fixture(scope="module")
def all_rows(study):
    return study("openood_corrections", "corrections").corrections()


@pytest.fixture(scope="module")
def rows(all_rows):
    """The columns of CIFAR-10 and CIFAR-100."""
    return [row for row in all_rows if row.dataset != "ImageNet-200"]


def test_all_pairs_are_there(all_rows, rows):
    assert len(rows) == 2 * 2 * 2 * 18
    assert len(all_rows) == 2 * 3 * 2 * 18
    assert len({(row.table, row.dataset, row.ood, row.detector) for row in all_rows}) == len(all_rows)


def test_every_published_correction_is_counted_once(study, all_rows):
    found = study("openood_corrections", "summary").agreement([asdict(row) for row in all_rows])
    corrections = [part for part in found.parts if part.title.startswith("Table")]
    assert sum(part.compared for part in corrections) == len(all_rows)
    assert {part.title: part.agree for part in corrections if "ImageNet" in part.title} == {
        "Table 4, ImageNet-200": 3, "Table 5, ImageNet-200": 35,
    }  # fmt: skip


def test_near_columns_are_reproduced(rows):
    near = [row for row in rows if row.ood == "near"]
    assert len(near) == 72
    assert max(abs(row.difference) for row in near) < 0.02


def test_far_columns_are_means_so_correcting_the_mean_is_never_too_small(rows):
    far = np.array([row.difference for row in rows if row.ood == "far"])
    assert far.min() > -0.01
    assert far.max() < 0.5
    assert (far <= 0.05).sum() == 49


def test_far_columns_follow_from_corrections_of_each_set(rows):
    far = [row for row in rows if row.ood == "far"]
    assert len(far) == 72
    for row in far:  # a split of the published mean, within [0, 100]
        assert (row.easy_set + 3 * row.other_sets) / 4 == pytest.approx(row.marginal, abs=2e-3)
        assert 0 <= row.easy_set <= row.other_sets <= 100
    split = {(row.dataset, row.detector): row.easy_set for row in far if row.table == 4}
    predicted = [row for row in far if row.table == 5]
    assert all(split[row.dataset, row.detector] == row.easy_set for row in predicted)  # nothing is fitted to Table 5
    assert max(abs(row.by_set_difference) for row in predicted) < 0.01


def test_published_correction_spends_more_than_it_promises(rows):
    levels = {row.delta: row.exact_level for row in rows}
    assert levels == {0.01: pytest.approx(1 - 0.01776, abs=1e-5), 0.05: pytest.approx(1 - 0.06735, abs=1e-5)}


def test_exact_band_is_tighter_in_every_near_column(rows):
    assert all(row.marginal < row.exact_band < row.published for row in rows if row.ood == "near")


def test_committed_table_is_what_the_script_computes(all_rows):
    with (STUDY / "corrections.csv").open(newline="") as file:
        committed = list(csv.reader(file))[1:]
    for line, row in zip(committed, all_rows, strict=True):
        computed = astuple(row)
        assert line[:5] == [str(value) for value in computed[:5]]
        numbers = [float(value) for value in line[5:]]
        assert numbers == pytest.approx(list(computed[5:]), abs=1.1e-3, nan_ok=True)


def test_the_columns_of_imagenet200_follow_in_table_5_and_by_no_correction_in_table_4(study):
    module = study("openood_corrections", "corrections")
    pairs = [pair for pair in module.published() if pair["dataset"] == "ImageNet-200"]

    def gaps(table, *methods):
        rows = [row for row in pairs if row["table"] == table]
        bound = np.minimum.reduce([boundary(module.N, float(rows[0]["delta"]), method) for method in methods])
        return {
            (row["ood"], row["detector"]): float(module._at(bound, float(row["marginal"]))) - float(row["published"])
            for row in rows
        }

    as_published = gaps("5", "simes", "asymptotic")
    assert len(as_published) == 36
    assert [key for key, gap in as_published.items() if abs(gap) > 0.05] == [("far", "RankFeat")]
    for method in ("simes", "asymptotic", "dkwm", "monte_carlo"):
        assert sum(abs(gap) <= 0.05 for gap in gaps("4", method).values()) <= 5
    off = gaps("4", "simes", "asymptotic")
    assert sum(abs(gap) <= 0.05 for gap in off.values()) == 3
    assert (min(off.values()), max(off.values())) == (pytest.approx(-1.237, abs=1e-3), pytest.approx(0.42, abs=1e-3))


def test_no_number_of_images_explains_the_columns_of_imagenet200_in_table_4(study):
    module = study("openood_corrections", "corrections")
    pairs = [pair for pair in module.published() if pair["dataset"] == "ImageNet-200" and pair["table"] == "4"]
    rates, values = (np.array([float(pair[key]) for pair in pairs]) for key in ("marginal", "published"))
    best = 0
    for n in range(500, 20_001, 50):
        for methods in (("simes", "asymptotic"), ("asymptotic",), ("dkwm",), ("simes",)):
            bound = np.append(np.minimum.reduce([boundary(n, 0.01, method) for method in methods]), 1.0)
            corrected = 100 * np.interp(rates / 100 * n, np.arange(n + 1), bound)
            best = max(best, int((np.abs(corrected - values) <= 0.05).sum()))
    assert best == 14  # of 36


def test_rankfeat_of_table_5_is_a_mean_over_three_sets(study):
    """One set at the mean rate is corrected to 100; three sets with this mean give the published value."""
    module = study("openood_corrections", "corrections")
    (pair,) = [
        pair for pair in module.published()
        if (pair["table"], pair["dataset"], pair["ood"], pair["detector"]) == ("5", "ImageNet-200", "far", "RankFeat")
    ]  # fmt: skip
    mean, value = float(pair["marginal"]), float(pair["published"])
    bound = np.minimum(boundary(module.N, 0.05, "simes"), boundary(module.N, 0.05, "asymptotic"))
    assert module._at(bound, mean) == pytest.approx(100, abs=1e-6)
    easiest = np.linspace(3 * mean - 200, mean, 20_001)  # the two others share what is left
    means = (module._at(bound, easiest) + 2 * module._at(bound, (3 * mean - easiest) / 2)) / 3
    fitting = easiest[np.abs(means - value) < 0.005]
    assert fitting.size
    assert fitting.min() == pytest.approx(96.82, abs=0.02)
    assert fitting.max() == pytest.approx(96.84, abs=0.02)
