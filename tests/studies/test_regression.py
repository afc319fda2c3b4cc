"""Expected shape of the regression study."""

import csv

import numpy as np
import pytest


def test_the_committed_table(study, studies):
    module = study("regression")
    with (studies / "regression" / "results.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    sets = {r["data"] for r in rows}
    assert len(sets) >= 20
    value = {(r["data"], float(r["alpha"]), r["method"]): r for r in rows}
    for alpha in module.ALPHAS:
        for method in module.METHODS:
            cover = np.mean([float(value[d, alpha, method]["coverage"]) for d in sets])
            assert cover > 1 - alpha - 0.01
            if method in ("CP", "CP-A", "SSCP"):  # the quantiles of CQR tie with targets that take few values
                assert cover < 1 - alpha + 0.02
        follow = {m: np.nanmean([float(value[d, alpha, m]["T-SS"]) for d in sets]) for m in ("CP", "CP-A", "O-CPA")}
        assert follow["CP-A"] > follow["CP"] + 0.2
        width = {m: np.mean([float(value[d, alpha, m]["width"]) for d in sets]) for m in ("CP-A", "PAC")}
        assert width["PAC"] > width["CP-A"]


@pytest.mark.slow
def test_one_set(study, data):
    module = study("regression")
    _, x, y = next(s for s in module.data_sets(data) if s[0] == "uci skillcraft")
    found = module.evaluate(x, y, seed=0)["0.2"]
    assert set(found) == set(module.METHODS)
    for method, values in found.items():
        assert values["coverage"] > 0.8 - 4 * np.sqrt(0.16 / 660 * 2), method


@pytest.mark.slow
def test_a_cell_gives_its_share_of_the_committed_table(study, studies, data):
    """Means over the two splits are what is committed."""
    rows = [
        {"data": "uci airfoil", "seed": seed} | row
        for seed in range(2)
        for row in study("regression").one("uci airfoil", seed)
    ]
    found = study("regression", "summary").means_over_seeds(rows)["uci airfoil"]
    with (studies / "regression" / "results.csv").open(encoding="utf-8") as stream:
        committed = [line for line in csv.DictReader(stream) if line["data"] == "uci airfoil"]
    for line in committed:
        for metric, value in found[line["alpha"]][line["method"]].items():
            assert f"{value:.4f}" == line[metric], (line["alpha"], line["method"], metric)
