from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def figure():
    spec = importlib.util.spec_from_file_location(
        "band_widths", DOCS.parent / "studies" / "band_widths" / "band_widths.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(figure):
    return {n: figure.widths(n, 0.05) for n in (1000, 10_000)}


@pytest.mark.parametrize("n", [1000, 10_000])
def test_table_is_what_is_computed(figure, n):
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    for line in figure.rows(n, 0.05):
        assert line in text


def test_what_the_text_says_of_dkwm(found):
    for n, ratio in ((1000, 1.8), (10_000, 1.9)):
        k = n // 20
        assert found[n]["dkwm"][k] / found[n]["exact"][k] == pytest.approx(ratio, abs=0.05)
        assert 3 < found[n]["dkwm"][n // 100] / found[n]["exact"][n // 100] < 4
    for n, first, last, least in ((1000, 0.26, 0.68, 1 - 1 / 10), (10_000, 0.24, 0.75, 1 - 1 / 7)):
        ratio = found[n]["dkwm"][: n - 1] / found[n]["exact"][: n - 1]
        narrower = np.flatnonzero(ratio < 1) / n
        assert (narrower.min(), narrower.max()) == (pytest.approx(first, abs=0.005), pytest.approx(last, abs=0.005))
        assert ratio.min() == pytest.approx(least, abs=0.01)


def test_what_the_text_says_of_simes(found):
    for n, crossing in ((1000, 0.047), (10_000, 0.006)):
        wider = np.flatnonzero(found[n]["exact"][: n // 5] > found[n]["simes"][: n // 5])
        assert wider.max() / n == pytest.approx(crossing, abs=0.0005)
    assert found[1000]["simes"][200] > 0.08


def test_what_the_text_says_of_focused(found):
    gain = np.concatenate([1 - found[n]["focused"][: n // 10 + 1] / found[n]["exact"][: n // 10 + 1] for n in found])
    assert (gain.min(), gain.max()) == (pytest.approx(0.13, abs=0.005), pytest.approx(0.22, abs=0.005))
    # a width falls like 1 / sqrt(n), so that a width times (1 - gain) takes n / (1 - gain)^2
    more = 1 / (1 - gain) ** 2 - 1
    assert (more.min(), more.max()) == (pytest.approx(0.3, abs=0.025), pytest.approx(0.65, abs=0.025))


def test_the_simulated_betting_bounds_failed_no_more_than_allowed_and_were_shorter():
    rows = [
        line for line in (DOCS / "guarantees.md").read_text(encoding="utf-8").splitlines() if line.count("(0.") == 4
    ]
    study = (DOCS.parent / "studies" / "betting_auroc" / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 10
    for row in rows:
        assert row in study
        _, _, _, delta, failed, *gaps, _ = (cell.strip() for cell in row.split("|"))
        assert float(failed) <= float(delta) + 4 * np.sqrt(float(delta) / 1000)
        assert all(float(gap.split()[0]) < float(gap.split("(")[1].rstrip(")")) for gap in gaps)
