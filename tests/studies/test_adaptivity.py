"""Expected shape of the adaptivity study."""

import csv

import numpy as np
import pytest


def load(path):
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_the_committed_tables(studies):
    rows = load(studies / "adaptivity" / "results.csv")
    networks = {r["network"] for r in rows}
    assert len(networks) == 21 + 6 + 4
    value = {
        (r["network"], r["alpha"], r["method"], m): float(r[m])
        for r in rows
        for m in ("T-CV", "T-SS", "coverage", "size")
    }
    for alpha in ("0.05", "0.1"):
        violation = {m: np.mean([value[n, alpha, m, "T-CV"] for n in networks]) for m in ("LAC", "O-LAC", "O-SAPS")}
        assert violation["O-LAC"] < violation["LAC"]
        assert violation["O-SAPS"] < violation["LAC"]
        follow = {m: np.nanmean([value[n, alpha, m, "T-SS"] for n in networks]) for m in ("LAC", "O-LAC")}
        assert follow["O-LAC"] > follow["LAC"]
        smallest = {
            m: np.mean([value[n, alpha, m, "size"] for n in networks]) for m in ("LAC", "APS", "O-LAC", "O-SAPS")
        }
        assert min(smallest, key=smallest.get) == "LAC"
    for (_, alpha, _, metric), found in value.items():
        if metric == "coverage":
            assert found > 1 - float(alpha) - 0.02


def test_the_committed_validation(studies):
    rows = load(studies / "adaptivity" / "validation.csv")
    place = {m: np.mean([int(r["place"]) for r in rows if r["metric"] == m]) for m in {r["metric"] for r in rows}}
    assert set(place) == {"Deficit", "Excess", "SSCV", "ESCV", "T-SS"}
    # As in Table 1 of the paper: T-SS leads by far, and the others follow in the same order.
    assert place["T-SS"] + 1 < min(place[m] for m in place if m != "T-SS")
    assert sorted(place, key=place.get) == ["T-SS", "Deficit", "SSCV", "ESCV", "Excess"]
    # Empty sets are left out of ESCV, or it is 1 - alpha in every trial and has no correlation.
    assert all(r["spearman"] != "nan" for r in rows if r["metric"] == "ESCV")


@pytest.mark.slow
def test_a_subsample(study, data):
    module = study("adaptivity")
    outputs = module.cifar_network("cifar100 resnet56")[::2]
    eases, judge = module.cifar_eases(outputs)
    runs = [module.methods.compare(outputs, eases, judge, alpha=0.1, seed=seed, bins=25) for seed in range(3)]
    median = {
        m: {k: np.median([run[m][k] for run in runs]) for k in ("T-CV", "T-SS", "coverage", "size")} for m in runs[0]
    }
    for found in median.values():
        assert abs(found["coverage"] - 0.9) < 0.03
    assert median["LAC"]["size"] < median["APS"]["size"]
    assert median["O-LAC"]["T-SS"] > 0.6
    # Figure 1: easy samples have the true label on top.
    ranks = np.array([r["value"] for r in module.tables(outputs, eases, judge, 1) if r["metric"] == "rank_by_ease"])
    assert ranks[:10].mean() > 3 * ranks[-10:].mean()


def test_the_grid_is_what_the_tables_hold(study, studies):
    grid = study("adaptivity").grid()
    for part, file in (("tables", "results.csv"), ("validation", "validation.csv")):
        committed = list(dict.fromkeys(row["network"] for row in load(studies / "adaptivity" / file)))
        assert [cell["network"] for cell in grid if cell["part"] == part] == committed
